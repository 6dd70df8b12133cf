// How many texts a sweep decodes together, and what these share: a field for each setting of a batch.
// Knows the settings as the server lists them. What only several texts share is hidden while there is one.

import { element } from "../shared/dom.js";
import { numberProblem } from "../shared/settings.js";

const SIZE = "batch_size";
const ALONE = "1";

/** @typedef {{ name: string, title: string, key: string, axis: string, default: string, bounds: Bounds, hint: string }} BatchSetting */

export class BatchFields {
  /**
   * @param {HTMLElement} before the field behind them
   * @param {BatchSetting[]} settings
   */
  constructor(before, settings) {
    this.settings = settings;
    /** @type {Record<string, any>} */
    this.inputs = Object.fromEntries(settings.map(({ name }) => [name, element("input")]));
    before.before(...settings.map((setting) => this.field(setting)));
  }

  /** @param {BatchSetting} setting */
  field({ name, title, default: usual, hint }) {
    const input = this.inputs[name];
    Object.assign(input, { type: "text", inputMode: "numeric", id: `sv-lab-${name}`, value: usual });
    const field = element("div", "field unfolded");
    field.dataset.field = name;
    const label = element("label", "", title);
    label.htmlFor = input.id;
    const words = element("p", "hint", hint);
    const error = element("p", "error");
    Object.assign(error, { hidden: true, role: "alert" });
    error.dataset.error = name;
    for (const [made, part] of /** @type {[HTMLElement, string][]} */ ([[words, "hint"], [error, "error"]])) made.id = `${input.id}-${part}`;
    input.setAttribute("aria-describedby", `${words.id} ${error.id}`);
    field.append(label, input, words, error);
    return field;
  }

  // Hides what an axis varies, and what a single text has no use for.
  /** @param {string[]} varied names of axes */
  refresh(varied) {
    const sized = this.settings.find(({ name }) => name === SIZE);
    const isAlone = !varied.includes(sized?.axis ?? "") && this.inputs[SIZE].value.trim() === ALONE;
    for (const { name, axis } of this.settings) {
      this.inputs[name].closest(".field").hidden = varied.includes(axis) || (isAlone && name !== SIZE);
    }
  }

  get shown() {
    return this.settings.filter(({ name }) => !this.inputs[name].closest(".field").hidden);
  }

  // What is sent.
  get order() {
    return Object.fromEntries(this.shown.map(({ name }) => [name, this.inputs[name].value]));
  }

  // The fields with a rule, as FieldErrors takes them.
  get checked() {
    return this.shown.map(({ name, title, bounds }) => {
      return { name, title, control: this.inputs[name], problem: (/** @type {string} */ text) => numberProblem(bounds, text) };
    });
  }

  // For the address: parameter -> control, and what is wrong with a text.
  get controls() {
    return Object.fromEntries(this.settings.map(({ name, key }) => [key, this.inputs[name]]));
  }

  get rules() {
    return Object.fromEntries(this.settings.map(({ key, bounds }) => [key, (/** @type {string} */ text) => numberProblem(bounds, text)]));
  }

  // What is unusual, in words.
  get words() {
    const unusual = this.shown.filter(({ name, default: usual }) => this.inputs[name].value !== usual);
    return unusual.map(({ name, title }) => `${title.toLowerCase()} ${this.inputs[name].value}`);
  }
}
