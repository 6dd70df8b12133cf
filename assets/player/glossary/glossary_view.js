// The view of the glossary: the elements that it shows in a state.

import { counted } from "../shared/number_words.js";
import { html, valueTo } from "../shared/view.js";
import { foundTerms } from "./found_terms.js";
import { queryOf } from "./glossary_state.js";

/**
 * @typedef {object} GlossaryOffer
 * @property {Glossary} glossary
 * @property {Setup["places"]} places pages that show an example of a term, by its key
 * @property {(query: string) => string} linkTo returns the address of a query such as ?view=lab
 */

/**
 * @typedef {object} GlossaryEvents
 * @property {(typed: string) => void} searched
 * @property {(event: KeyboardEvent) => void} pressed
 */

/**
 * @param {import("./glossary_state.js").GlossaryState} state
 * @param {GlossaryOffer} offer
 * @param {GlossaryEvents} on
 */
export function glossaryView({ typed, chosen }, offer, on) {
  const found = foundTerms(offer.glossary, typed);
  return html`
    <section aria-labelledby="sv-glossary-title">
      <h2 id="sv-glossary-title">Glossary</h2>
      <p class="glossary-lead">
        Every word of the app, and where you can see the thing itself at work.
      </p>
      <div class="field glossary-search">
        <label for="sv-glossary-search">Search</label>
        <input id="sv-glossary-search" type="text" role="searchbox" autocomplete="off"
          spellcheck=${false} aria-keyshortcuts="/" value=${typed}
          onInput=${valueTo(on.searched)}
          onKeyDown=${on.pressed} />
        <p class="hint" role="status">
          ${found.length ? counted(found.length, "term") : `no term has “${typed.trim()}”`}
        </p>
      </div>
      <ul class="glossary-terms">
        ${found.map((key) => termEntry(key, offer, key === chosen))}
      </ul>
    </section>
  `;
}

/**
 * @param {string} key
 * @param {GlossaryOffer} offer
 * @param {boolean} isChosen
 */
function termEntry(key, { glossary, places, linkTo }, isChosen) {
  const { title, definition, formula } = glossary[key];
  return html`
    <li key=${key} class="glossary-term" aria-current=${isChosen ? "true" : null}>
      <h3><a href=${linkTo(queryOf(key))} data-place="">${title}</a></h3>
      <p>${definition}</p>
      ${formula && html`<code>${formula}</code>`}
      <p class="glossary-seen hint">See it: ${places[key].map((place, at) => placeLink(place, at, linkTo))}</p>
    </li>
  `;
}

/**
 * @param {{ title: string, address: string }} place
 * @param {number} at
 * @param {GlossaryOffer["linkTo"]} linkTo
 */
function placeLink({ title, address }, at, linkTo) {
  return html`${at ? " · " : ""}<a href=${linkTo(`?${address}`)} data-place="">${title}</a>`;
}
