// The view library (assets/player/vendor) as the pages use it. A view is a function from values to
// elements; `html` accepts elements in the syntax of HTML, and never parses a value as HTML. Two
// things differ from HTML. A line break next to an element or a value is no space. To switch an
// attribute off, pass false and not a text, as in spellcheck=${false}.

import htm from "../vendor/htm.js";
import { Component, h, render } from "../vendor/preact.js";

/** @typedef {import("../vendor/preact.js").ComponentChildren} View */

export const html = htm.bind(h);
export { Component, render };

// Return a listener that passes the content of its field to `take`.
/** @param {(value: string) => void} take */
export function valueTo(take) {
  return (/** @type {any} */ { currentTarget }) => take(currentTarget.value);
}

// Return a listener for the event "submit" of a form. It calls `act` and keeps the browser from
// sending the form.
/** @param {() => void} [act] */
export function submitTo(act) {
  return (/** @type {Event} */ event) => {
    event.preventDefault();
    act?.();
  };
}
