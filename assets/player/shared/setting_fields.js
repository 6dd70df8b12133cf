// The fields of the settings: made from the table where a page has a place for them, found by the name of
// their setting.

import { element } from "./dom.js";
import { plainNumbers, settingOf, SWITCHED_ON } from "./settings.js";

// In place of <template data-settings="sliders|others|all" data-prefix="lab">: a field for each plain number.
/** @param {HTMLElement} root */
export function makeFields(root) {
  for (const place of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("template[data-settings]"))) {
    const { settings: which, prefix = "" } = place.dataset;
    const wanted = plainNumbers().filter(({ slider }) => which === "all" || Boolean(slider) === (which === "sliders"));
    place.replaceWith(...wanted.map((setting) => field(setting, prefix, which === "sliders")));
  }
  for (const place of root.querySelectorAll("[data-setting-titles]")) place.textContent = titles();
}

// "System prompt, top-k, top-p, seed, precision"
function titles() {
  const [first, ...others] = [settingOf("system"), ...plainNumbers().filter(({ slider }) => !slider), settingOf("dtype")].map(({ title }) => title);
  return [first, ...others.map((title) => title.toLowerCase())].join(", ");
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
  if (hint) label.append(" ", element("span", "hint", hint));
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

// ["lab", "top", "k"] -> "labTopK"
/** @param {string[]} words */
function camel(words) {
  const [first, ...others] = words.filter(Boolean);
  return first + others.map((word) => word[0].toUpperCase() + word.slice(1)).join("");
}

// What a control holds, as text: of a switch "yes" or nothing.
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

// Setting -> its control, of a form.
/** @param {HTMLElement} form */
export function controlsOf(form) {
  const controls = /** @type {NodeListOf<HTMLElement>} */ (form.querySelectorAll("[data-setting]"));
  return Object.fromEntries([...controls].map((control) => [control.dataset.setting, control]));
}
