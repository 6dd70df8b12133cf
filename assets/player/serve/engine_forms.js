// A configuration in several formats (command line, YAML, …). One format is shown and can be
// copied.

import { html } from "../shared/view.js";

/**
 * @typedef {import("./configuration_state.js").Written} Written
 * @typedef {import("./configuration_state.js").Shown} Shown
 */

const COPY_WORDS = { "": "Copy", copied: "Copied", failed: "Select the text and copy it" };

/**
 * @typedef {object} FormsEvents
 * @property {(form: string) => void} chosen
 * @property {(text: string, box: HTMLElement) => void} copy `box` contains the text
 */

// Return the shown format: the chosen one, or the first one that the server wrote.
/**
 * @param {Written} written
 * @param {Shown} shown
 * @param {Choice[]} kinds
 */
export function shownForm({ forms }, { chosen }, kinds) {
  const offered = kinds.filter(({ name }) => forms[name]);
  return offered.find(({ name }) => name === chosen) ?? offered[0] ?? null;
}

// If the server wrote no format, show only its remarks.
/**
 * @param {Written | null} written
 * @param {Shown} shown
 * @param {Choice[]} kinds
 * @param {FormsEvents} on
 */
export function formsView(written, shown, kinds, on) {
  const form = written && shownForm(written, shown, kinds);
  return html`
    <div class="engine-forms" hidden=${!form && !written?.remarks.length}>
      ${form && formText(/** @type {Written} */ (written).forms, form, shown, kinds, on)}
      ${
        written &&
        written.remarks.length > 0 &&
        html`<ul class="report">
          ${written.remarks.map((text) => html`<li class=${written.level}>${text}</li>`)}
        </ul>`
      }
    </div>
  `;
}

/**
 * @param {Record<string, string>} forms
 * @param {Choice} form
 * @param {Shown} shown
 * @param {Choice[]} kinds
 * @param {FormsEvents} on
 */
function formText(forms, { name, title }, { copying }, kinds, on) {
  const copy = (/** @type {any} */ { currentTarget }) =>
    on.copy(forms[name], currentTarget.closest(".engine-forms").querySelector("pre"));
  return html`
    <div class="row">
      <div class="segments" role="group" aria-label="Form of the configuration">
        ${kinds.filter((kind) => forms[kind.name]).map((kind) => formButton(kind, name, on))}
      </div>
      <button type="button" class="chip" aria-label="Copy: ${title}" onClick=${copy}>
        ${COPY_WORDS[copying]}
      </button>
    </div>
    <pre class="engine-text" tabindex="0" aria-label="Configuration: ${title}">${forms[name]}</pre>
  `;
}

/**
 * @param {Choice} kind
 * @param {string} pressed
 * @param {FormsEvents} on
 */
function formButton({ name, title }, pressed, on) {
  return html`
    <button key=${name} type="button" aria-pressed=${String(name === pressed)}
      onClick=${() => on.chosen(name)}>
      ${title}
    </button>
  `;
}
