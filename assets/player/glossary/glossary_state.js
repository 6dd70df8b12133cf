// The state of the glossary and its actions: what is typed into the search, and the term that the
// address names.

import { pageLink } from "../shared/page_parameter.js";
import { foundTerms } from "./found_terms.js";

export const [PAGE, TERM] = ["glossary", "term"]; // the page and its parameter in the address

/** @typedef {{ typed: string, chosen: string }} GlossaryState `chosen` is the key of a term, or "" */

/** @type {GlossaryState} */
export const START = { typed: "", chosen: "" };

/**
 * @param {GlossaryState} state
 * @param {string} typed
 * @returns {GlossaryState}
 */
export function searched(state, typed) {
  return { ...state, typed };
}

// Choose the term of an address. A key that is no term chooses none. A search that hides the term
// is cleared.
/**
 * @param {GlossaryState} state
 * @param {Glossary} glossary
 * @param {string} key
 * @returns {GlossaryState}
 */
export function landed(state, glossary, key) {
  const chosen = key in glossary ? key : "";
  const isHidden = chosen && !foundTerms(glossary, state.typed).includes(chosen);
  return { typed: isHidden ? "" : state.typed, chosen };
}

// Return the key of the term that is `by` positions after the chosen one in the list, or undefined
// if the list is empty. If the list does not contain the chosen term, a step forward leads to the
// first one.
/**
 * @param {GlossaryState} state
 * @param {Glossary} glossary
 * @param {number} by
 */
export function neighbour({ typed, chosen }, glossary, by) {
  const found = foundTerms(glossary, typed);
  const at = found.indexOf(chosen);
  const next = at < 0 && by > 0 && by < Infinity ? 0 : at + by;
  return found[Math.min(found.length - 1, Math.max(0, next))];
}

// Return the query of the address of a term.
/** @param {string} key */
export function queryOf(key) {
  return `${pageLink(PAGE)}&${TERM}=${key}`;
}
