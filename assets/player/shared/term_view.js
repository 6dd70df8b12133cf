// A word with a definition, as a view. shared/terms.js opens the card with the definition.

import { html } from "./view.js";

/**
 * @param {string} text
 * @param {string} key
 */
export function termView(text, key) {
  return html`<button type="button" class="term" data-term=${key}>${text}</button>`;
}
