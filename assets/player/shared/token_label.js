// The name of a token: its text on one line, with visible spaces and line breaks. A token that ends
// a text is named by its function (specviz/figures/labels.py).

/** @type {Record<string, string>} */
const MARKS = { " ": "·", "\n": "⏎", "\t": "⇥", "\r": "␍" };
const SPACE = "⟨space⟩"; // name of a token that is only a space, because a single dot would be unclear
/** @type {Map<string, string>} */
const endings = new Map();

// Store the names of tokens that end a text. It must be called once, before anything is drawn.
/** @param {Record<string, string>} names */
export function takeEndings(names) {
  for (const [text, name] of Object.entries(names)) endings.set(text, name);
}

/** @param {string} text */
export function tokenLabel(text) {
  if (text === " ") return SPACE;
  return (
    endings.get(text) ??
    [...(text || "∅")].map((character) => MARKS[character] ?? character).join("")
  );
}

// Return the text of a token as a part of a longer text. A token that ends a text has no text, so
// its name is returned.
/** @param {string} text */
export function tokenText(text) {
  return text === "" ? "∅" : (endings.get(text) ?? text);
}
