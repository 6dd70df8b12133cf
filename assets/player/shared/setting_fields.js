// The input fields of the settings. They are made from the table of settings where a page has a
// template for them, and found by the name of their setting. The fields of the models are copies of
// those in page.html.

import { element } from "./dom.js";
import { plainNumbers, SWITCHED_ON } from "./settings.js";

// Replace every element <template data-settings="…" data-prefix="lab"> by fields. The value of
// data-settings can be the name of one setting. "others" stands for all plain numbers that no other
// template names. "all" stands for all plain numbers; their fields have no sliders.
/** @param {HTMLElement} root */
export function makeFields(root) {
  const places = [
    .../** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("template[data-settings]")),
  ];
  const placed = places.map(({ dataset }) => dataset.settings);
  for (const place of places) {
    const { settings: which, prefix = "" } = place.dataset;
    const isWanted = (/** @type {string} */ name) =>
      which === "all" || which === name || (which === "others" && !placed.includes(name));
    const wanted = plainNumbers().filter(({ name }) => isWanted(name));
    place.replaceWith(
      ...wanted.map((setting) =>
        field(setting, prefix, which !== "all" && Boolean(setting.slider)),
      ),
    );
  }
}

// Replace every element <template data-models data-prefix="lab"> by the fields of the models. The
// prefix keeps their ids unique on each page.
/** @param {HTMLElement} root */
export function makeModelFields(root) {
  const { content } = /** @type {HTMLTemplateElement} */ (
    root.querySelector("template[data-model-fields]")
  );
  for (const place of /** @type {NodeListOf<HTMLElement>} */ (
    root.querySelectorAll("template[data-models]")
  )) {
    const made = /** @type {HTMLElement} */ (
      /** @type {Element} */ (content.firstElementChild).cloneNode(true)
    );
    made.classList.add(...place.classList);
    const { prefix } = place.dataset;
    if (prefix)
      for (const part of /** @type {NodeListOf<HTMLElement>} */ (made.querySelectorAll("*")))
        putPrefix(part, prefix);
    place.replaceWith(made);
  }
}

/**
 * @param {HTMLElement} part
 * @param {string} prefix
 */
function putPrefix(part, prefix) {
  for (const name of ["id", "for", "aria-describedby"]) {
    const value = part.getAttribute(name);
    if (value) part.setAttribute(name, value.replace(/^sv-/, `sv-${prefix}-`));
  }
  if (part.dataset.ref) part.dataset.ref = camel([prefix, part.dataset.ref]);
}

/**
 * @param {SettingRow} setting
 * @param {string} prefix
 * @param {boolean} hasSlider
 */
function field(setting, prefix, hasSlider) {
  const { name, title, key, hint, bounds } = setting;
  const made = element("div", hasSlider ? "field slider" : "field");
  made.dataset.field = name;
  const id = ["sv", prefix, key].filter(Boolean).join("-");
  const label = element("label", "", title);
  label.htmlFor = id;
  const isOfSlider = Boolean(setting.slider); // the hint says by how much the typed value may exceed the slider
  if (hint && (hasSlider || !isOfSlider)) label.append(" ", element("span", "hint", hint));
  const input = element("input");
  Object.assign(input, { id, type: "text", inputMode: bounds?.is_whole ? "numeric" : "decimal" });
  input.dataset.setting = name;
  input.dataset.ref = camel([prefix, ...name.split("_")]);
  input.setAttribute("aria-describedby", `${id}-error`);
  const error = element("p", "error");
  Object.assign(error, { id: `${id}-error`, hidden: true, role: "alert" });
  error.dataset.error = name;
  made.append(label, input, error);
  return made;
}

// Join words in camel case: ["lab", "top", "k"] -> "labTopK".
/** @param {string[]} words */
function camel(words) {
  const [first, ...others] = words.filter(Boolean);
  return first + others.map((word) => word[0].toUpperCase() + word.slice(1)).join("");
}

// Return the value of a control as text. A checkbox gives "yes" or "".
/** @param {any} control */
export function textOf(control) {
  return control.type === "checkbox" ? (control.checked ? SWITCHED_ON : "") : control.value;
}

/**
 * @param {any} control
 * @param {string} text
 */
export function putText(control, text) {
  if (control.type === "checkbox") control.checked = text === SWITCHED_ON;
  else control.value = text;
}

// Return the controls of a form, keyed by the name of their setting.
/** @param {HTMLElement} form */
export function controlsOf(form) {
  const controls = /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-setting]"));
  return Object.fromEntries([...controls].map((control) => [control.dataset.setting, control]));
}
