// What the drafter did in a round, one line per remark: text, and tokens as small chips. The words come
// from the server, whatever the drafter.

import { element } from "./dom.js";
import { tokenLabel } from "./tooltip.js";

const MOST_CHIPS = 48; // of one list: a drafter may name hundreds

export class Remarks {
  /**
   * @param {HTMLElement} box
   * @param {Glossary} glossary
   */
  constructor(box, glossary) {
    this.box = box;
    this.glossary = glossary;
  }

  /**
   * @param {Trace} trace
   * @param {Remark[]} remarks
   */
  draw(trace, remarks) {
    if (!remarks.length) return this.clear();
    this.box.hidden = false;
    const lines = remarks.map((parts) => this.line(trace, parts));
    this.box.replaceChildren(element("h3", "", "What the drafter did"), ...lines);
  }

  clear() {
    this.box.hidden = true;
    this.box.replaceChildren();
  }

  /**
   * @param {Trace} trace
   * @param {Remark} parts
   */
  line(trace, parts) {
    const made = element("p");
    for (const part of parts) {
      if (typeof part === "string") made.append(part);
      else if (Array.isArray(part)) made.append(...chips(trace, part));
      else made.append(this.word(part));
    }
    return made;
  }

  /** @param {{ text: string, term: string }} part */
  word({ text, term }) {
    const made = element("abbr", "", text);
    made.title = this.glossary[term]?.definition ?? "";
    return made;
  }
}

/**
 * @param {Trace} trace
 * @param {number[]} ids
 */
function chips(trace, ids) {
  const shown = ids.slice(0, MOST_CHIPS).map((id) => element("span", "token-chip", tokenLabel(trace.text(id))));
  const rest = ids.length - shown.length;
  return rest > 0 ? [...shown, ` and ${rest} more`] : shown;
}
