// Which terms a search finds. Knows no page.

/** @typedef {{ title: string, definition: string, formula: string }} Meaning */

// The keys of the terms whose words hold all of the search's, those that have it in their title first;
// else in the alphabet's order.
/**
 * @param {Record<string, Meaning>} glossary
 * @param {string} text
 */
export function foundTerms(glossary, text) {
  const words = plain(text).split(/\s+/).filter(Boolean);
  const holds = (/** @type {string} */ place) => words.every((word) => plain(place).includes(word));
  const found = Object.entries(glossary).filter(([key, { title, definition, formula }]) => holds([key.replaceAll("_", " "), title, definition, formula].join(" ")));
  const rank = (/** @type {Meaning} */ { title }) => (words.length && holds(title) ? 0 : 1);
  const order = new Intl.Collator("en", { sensitivity: "base" });
  return found.sort(([, one], [, other]) => rank(one) - rank(other) || order.compare(one.title, other.title)).map(([key]) => key);
}

// Without hyphens and capitals, as one types.
/** @param {string} text */
function plain(text) {
  return text.toLowerCase().replaceAll("-", " ");
}
