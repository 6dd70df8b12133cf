// The setting that the results on screen belong to, and a quiet line where the form has left it.

import { setText } from "../shared/dom.js";

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
  if (order !== null && typeof order === "object") {
    return `{${Object.keys(order).sort().map((name) => `${name}:${signature(order[name])}`)}}`;
  }
  const isNumber = typeof order === "string" && order.trim() !== "" && !Number.isNaN(Number(order));
  return JSON.stringify(isNumber ? Number(order) : order);
}
