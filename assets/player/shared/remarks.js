// The server's words about a round: the notes of the drafter, one line each, and the sentences
// about its moments. Tokens appear as small chips.

import { element } from "./dom.js";
import { tokenLabel } from "./token_label.js";

const MOST_CHIPS = 48; // tokens in one list, because a drafter may name hundreds

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
    made.append(...remarkNodes(trace, parts, this.glossary));
    return made;
  }
}

// Return the parts of a note or sentence as nodes for an element.
/**
 * @param {Trace} trace
 * @param {Remark} parts
 * @param {Glossary} [glossary]
 * @returns {(string | Node)[]}
 */
export function remarkNodes(trace, parts, glossary = {}) {
  return parts.flatMap((part) => {
    if (typeof part === "string") return [part];
    return Array.isArray(part) ? chips(trace, part) : [word(part, glossary)];
  });
}

/**
 * @param {{ text: string, term: string }} part
 * @param {Glossary} glossary
 */
function word({ text, term }, glossary) {
  const made = element("abbr", "", text);
  made.title = glossary[term]?.definition ?? "";
  return made;
}

/**
 * @param {Trace} trace
 * @param {number[]} ids
 */
function chips(trace, ids) {
  const shown = ids
    .slice(0, MOST_CHIPS)
    .map((id) => element("span", "token-chip", tokenLabel(trace.text(id))));
  const rest = ids.length - shown.length;
  return rest > 0 ? [...shown, ` and ${rest} more`] : shown;
}
