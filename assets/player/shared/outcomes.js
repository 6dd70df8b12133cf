// How each outcome of a token looks and is called: the server's table (specviz/figures/outcomes.py),
// as CSS variables, marks and words.

import { element } from "./dom.js";
import { termButton } from "./terms.js";

/** @type {Map<string, Look>} */
const looks = new Map();

// Once, before anything is drawn. A class of an outcome's name brings its colour, mark and underline
// as --outcome, --outcome-word, --mark, --underline and --tint to what carries it.
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
  const own = { outcome: `var(--${name})`, "outcome-word": `var(--${name}-word)`, mark: `"${mark}"`, underline, tint };
  const variables = Object.entries(own).map(([variable, value]) => `--${variable}: ${value};`);
  return `.specviz { --${name}-word: color-mix(in srgb, var(--${name}) ${word}, var(--ink)); --${name}-mark: "${mark}"; }
    .specviz .${name} { ${variables.join(" ")} }`;
}
