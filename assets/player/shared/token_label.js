// What a token is called where it is named: its text on one line, spaces and breaks visible; one that ends
// a text by what it does (specviz/figures/labels.py).

/** @type {Record<string, string>} */
const MARKS = { " ": "·", "\n": "⏎", "\t": "⇥", "\r": "␍" };
const SPACE = "⟨space⟩"; // a token of its own: a dot alone would say nothing
/** @type {Map<string, string>} */
const endings = new Map();

// Once, before anything is drawn.
/** @param {Record<string, string>} names */
export function takeEndings(names) {
  for (const [text, name] of Object.entries(names)) endings.set(text, name);
}

/** @param {string} text */
export function tokenLabel(text) {
  if (text === " ") return SPACE;
  return endings.get(text) ?? [...(text || "∅")].map((character) => MARKS[character] ?? character).join("");
}

// The text as it stands among others, where an ending has none.
/** @param {string} text */
export function tokenText(text) {
  return text === "" ? "∅" : (endings.get(text) ?? text);
}
