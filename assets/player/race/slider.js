// A number that the user can type exactly in a text field or drag roughly with a slider. Each of
// the two follows the other. The slider covers the useful range, and the text field also accepts
// numbers outside of it. This class does not know what the number means.

import { element } from "../shared/dom.js";

export class Slider {
  /**
   * @param {HTMLInputElement} input
   * @param {{ low: number, high: number, step: number }} range
   */
  constructor(input, { low, high, step }) {
    this.input = input;
    this.range = element("input");
    this.range.type = "range";
    this.range.min = String(low);
    this.range.max = String(high);
    this.range.step = String(step);
    this.range.tabIndex = 0;
    this.range.setAttribute("aria-label", `${input.labels?.[0].textContent}, slider`);
    input.after(this.range);
    this.range.addEventListener("input", () => this.drag());
    input.addEventListener("input", () => this.follow());
  }

  drag() {
    this.input.value = this.range.value;
    this.paint();
    this.input.dispatchEvent(new Event("input", { bubbles: true }));
  }

  follow() {
    const number = Number(this.input.value);
    if (this.input.value.trim() !== "" && Number.isFinite(number))
      this.range.value = String(number);
    this.paint();
  }

  paint() {
    const [min, max, value] = [this.range.min, this.range.max, this.range.value].map(Number);
    const share = (100 * (value - min)) / (max - min);
    this.range.style.setProperty("--fill", `${share}%`);
  }
}
