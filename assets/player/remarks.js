// What the drafter did in a round, one line per remark: text, and tokens as small chips.
// Knows parts: a text, or a list of token ids. The words come from the server, whatever the drafter.

import { element } from "./dom.js";
import { tokenLabel } from "./tooltip.js";

const MOST_CHIPS = 48; // of one list: a drafter may name hundreds

export class Remarks {
  constructor(box) {
    this.box = box;
  }

  draw(trace, remarks) {
    this.box.hidden = remarks.length === 0;
    const lines = remarks.map((parts) => line(trace, parts));
    this.box.replaceChildren(element("h3", "", "What the drafter did"), ...lines);
  }

  clear() {
    this.box.hidden = true;
    this.box.replaceChildren();
  }
}

function line(trace, parts) {
  const made = element("p");
  for (const part of parts) {
    if (typeof part === "string") made.append(part);
    else made.append(...chips(trace, part));
  }
  return made;
}

function chips(trace, ids) {
  const shown = ids.slice(0, MOST_CHIPS).map((id) => element("span", "token-chip", tokenLabel(trace.text(id))));
  const rest = ids.length - shown.length;
  return rest > 0 ? [...shown, ` and ${rest} more`] : shown;
}
