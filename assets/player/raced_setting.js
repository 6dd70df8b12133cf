// The setting that the results on screen belong to, and a quiet line where the form has left it.
// Knows an order as the form gives it; judges nothing.

import { setText } from "./dom.js";

export class RacedSetting {
  constructor(line) {
    this.line = line;
    this.order = null;
  }

  keep(order, words) {
    this.order = order;
    setText(this.line, `These results are of the earlier setting: ${words}.`);
  }

  compare(order) {
    this.line.hidden = this.order === null || signature(order) === signature(this.order);
  }
}

// "0.70" and "0.7" are one setting.
function signature(order) {
  const plain = (value) => (typeof value === "string" && value.trim() !== "" && !Number.isNaN(Number(value)) ? Number(value) : value);
  return JSON.stringify(Object.entries(order).map(([name, value]) => [name, plain(value)]).sort());
}
