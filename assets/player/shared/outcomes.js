// The colour, mark and name of each outcome of a token. The server sends them
// (specviz/figures/outcomes.py); this module turns them into CSS variables.

import { element } from "./dom.js";
import { termButton } from "./terms.js";

/** @type {Map<string, Look>} */
const looks = new Map();

// Store the outcomes and make their styles. It must be called once, before anything is drawn. An
// element whose class is the name of an outcome then has the CSS variables --outcome,
// --outcome-word, --mark, --underline and --tint.
/** @param {Look[]} outcomes */
export function takeOutcomes(outcomes) {
  for (const look of outcomes) looks.set(look.name, look);
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(outcomes.map(rules).join("\n"));
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
}

/** @param {string} outcome */
export function lookOf(outcome) {
  return /** @type {Look} */ (looks.get(outcome));
}

export function legendRows() {
  const rows = [...looks.values()].map(({ name, mark, short, term }) => {
    const row = element("li", name);
    row.append(element("i", "", mark), term ? termButton(short, term) : short);
    return row;
  });
  const first = element("li");
  const word = termButton("first token", "first_token");
  word.classList.add("token", "first");
  first.append(word);
  return [...rows, first];
}

/** @param {Look} look */
function rules({ name, mark, word, underline, tint }) {
  const own = {
    outcome: `var(--${name})`,
    "outcome-word": `var(--${name}-word)`,
    mark: `"${mark}"`,
    underline,
    tint,
  };
  const variables = Object.entries(own).map(([variable, value]) => `--${variable}: ${value};`);
  return `.specviz { --${name}-word: color-mix(in srgb, var(--${name}) ${word}, var(--ink)); --${name}-mark: "${mark}"; }
    .specviz .${name} { ${variables.join(" ")} }`;
}
