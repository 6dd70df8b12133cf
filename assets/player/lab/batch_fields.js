// The fields of a batch: how many texts a sweep decodes together, and the settings that apply to
// all of them together, such as a common draft budget. The server sends the list of these settings.
// While the batch has one text, the fields that need several texts are hidden.

import { element } from "../shared/dom.js";
import { numberProblem } from "../shared/settings.js";

const SIZE = "batch_size";
const ALONE = "1";

/** @typedef {{ name: string, title: string, key: string, axis: string, default: string, bounds: Bounds, hint: string }} BatchSetting */

export class BatchFields {
  /**
   * @param {HTMLElement} before the element before which the fields are inserted
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
    Object.assign(input, {
      type: "text",
      inputMode: "numeric",
      id: `sv-lab-${name}`,
      value: usual,
    });
    const field = element("div", "field unfolded");
    field.dataset.field = name;
    const label = element("label", "", title);
    label.htmlFor = input.id;
    const words = element("p", "hint", hint);
    const error = element("p", "error");
    Object.assign(error, { hidden: true, role: "alert" });
    error.dataset.error = name;
    for (const [made, part] of /** @type {[HTMLElement, string][]} */ ([
      [words, "hint"],
      [error, "error"],
    ]))
      made.id = `${input.id}-${part}`;
    input.setAttribute("aria-describedby", `${words.id} ${error.id}`);
    field.append(label, input, words, error);
    return field;
  }

  // Hide the fields whose settings are varied by an axis. If the batch has a single text, also hide
  // the fields that need several texts.
  /** @param {string[]} varied names of the chosen axes */
  refresh(varied) {
    const sized = this.settings.find(({ name }) => name === SIZE);
    const isAlone = !varied.includes(sized?.axis ?? "") && this.inputs[SIZE].value.trim() === ALONE;
    for (const { name, axis } of this.settings) {
      this.inputs[name].closest(".field").hidden =
        varied.includes(axis) || (isAlone && name !== SIZE);
    }
  }

  get shown() {
    return this.settings.filter(({ name }) => !this.inputs[name].closest(".field").hidden);
  }

  // The part of the request that describes the batch.
  get order() {
    return Object.fromEntries(this.shown.map(({ name }) => [name, this.inputs[name].value]));
  }

  // The visible fields that the browser can check.
  get checked() {
    return this.shown.map(({ name, title, bounds }) => {
      return {
        name,
        title,
        control: this.inputs[name],
        problem: (/** @type {string} */ text) => numberProblem(bounds, text),
      };
    });
  }

  // The fields whose values are written into the address, keyed by the name of their parameter.
  get controls() {
    return Object.fromEntries(this.settings.map(({ name, key }) => [key, this.inputs[name]]));
  }

  get rules() {
    return Object.fromEntries(
      this.settings.map(({ key, bounds }) => [
        key,
        (/** @type {string} */ text) => numberProblem(bounds, text),
      ]),
    );
  }

  // The fields that are not at their defaults, in words.
  get words() {
    const unusual = this.shown.filter(
      ({ name, default: usual }) => this.inputs[name].value !== usual,
    );
    return unusual.map(({ name, title }) => `${title.toLowerCase()} ${this.inputs[name].value}`);
  }
}
