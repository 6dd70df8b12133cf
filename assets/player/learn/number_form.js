// The field of a step that asks the learner for a number.

import { element } from "../shared/dom.js";
import { typedNumber } from "./lesson_answers.js";

export class NumberForm {
  /** @param {(typed: import("./lesson_answers.js").Typed) => void} onGive */
  constructor(onGive) {
    this.box = element("form", "number-form");
    this.input = element("input");
    this.input.type = "text";
    this.input.inputMode = "decimal";
    this.input.autocomplete = "off";
    this.input.dataset.number = "";
    const label = element("label");
    label.append(element("span", "", "Your number"), this.input);
    const go = element("button", "secondary", "Check it");
    go.type = "submit";
    this.error = element("p", "error");
    this.error.setAttribute("role", "alert");
    this.box.append(label, go, this.error);
    this.box.addEventListener("submit", (event) => {
      event.preventDefault();
      const typed = typedNumber(this.input.value);
      this.error.textContent = typed
        ? ""
        : `It must be a number such as 1.5 or 66 %, got “${this.input.value.slice(0, 20)}”.`;
      if (typed) onGive(typed);
    });
  }

  clear() {
    this.input.value = "";
    this.error.textContent = "";
  }
}
