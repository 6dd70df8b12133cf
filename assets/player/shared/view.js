// The view library (assets/player/vendor) as the pages use it. A view is a function from values to
// elements; `html` writes elements as they would stand in HTML, and never parses a value as HTML.
// Two things differ from HTML: a line break next to an element or a value is no space, and an
// attribute that is switched off needs a value that is no text, such as spellcheck=${false}.

import htm from "../vendor/htm.js";
import { Component, h, render } from "../vendor/preact.js";

/** @typedef {import("../vendor/preact.js").ComponentChildren} View */

export const html = htm.bind(h);
export { Component, render };

// Return a listener that passes on what its field contains.
/** @param {(value: string) => void} take */
export function valueTo(take) {
  return (/** @type {any} */ { currentTarget }) => take(currentTarget.value);
}

// Return a listener of a form. The browser itself never sends a form.
/** @param {() => void} [act] */
export function submitTo(act) {
  return (/** @type {Event} */ event) => {
    event.preventDefault();
    act?.();
  };
}
