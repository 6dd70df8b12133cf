// A view of some lines of code. It marks the lines that are executed and lists the values of their
// variables.

import { element } from "./dom.js";

export class CodeView {
  /**
   * @param {HTMLElement} box
   * @param {ShownCode} code
   */
  constructor(box, code) {
    this.code = code;
    const list = element("ol", "code-lines");
    list.start = code.first;
    this.rows = code.lines.map((text) => {
      const row = element("li");
      row.append(element("code", "", text || " "));
      return row;
    });
    list.append(...this.rows);
    this.values = element("dl", "code-values");
    this.values.setAttribute("aria-live", "polite");
    box.replaceChildren(this.values, list);
  }

  // Show the lines and values of a moment. Null marks no line.
  /** @param {{ name: string, values: Record<string, string> } | null} shown */
  show(shown) {
    const moment = this.code.moments.find(({ name }) => name === shown?.name);
    this.rows.forEach((row, at) => {
      const isNow = moment?.lines.includes(at) ?? false;
      row.classList.toggle("is-now", isNow);
      if (isNow) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
    });
    const named = (moment?.values ?? []).map((name) => {
      const pair = element("div");
      pair.append(element("dt", "", name), element("dd", "", shown?.values[name] ?? ""));
      return pair;
    });
    this.values.replaceChildren(...named);
  }
}
