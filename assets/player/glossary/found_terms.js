// The search for terms of the glossary.

/** @typedef {{ title: string, definition: string, formula: string }} Meaning */

// Return the keys of the terms that contain all words of the search. Terms whose title contains the
// words come first; otherwise the order is alphabetical.
/**
 * @param {Record<string, Meaning>} glossary
 * @param {string} text
 */
export function foundTerms(glossary, text) {
  const words = plain(text).split(/\s+/).filter(Boolean);
  const holds = (/** @type {string} */ place) => words.every((word) => plain(place).includes(word));
  const found = Object.entries(glossary).filter(([key, { title, definition, formula }]) =>
    holds([key.replaceAll("_", " "), title, definition, formula].join(" ")),
  );
  const rank = (/** @type {Meaning} */ { title }) => (words.length && holds(title) ? 0 : 1);
  const order = new Intl.Collator("en", { sensitivity: "base" });
  return found
    .sort(([, one], [, other]) => rank(one) - rank(other) || order.compare(one.title, other.title))
    .map(([key]) => key);
}

// Return a text in lower case, with spaces in place of hyphens, because users often type neither
// capitals nor hyphens.
/** @param {string} text */
function plain(text) {
  return text.toLowerCase().replaceAll("-", " ");
}
