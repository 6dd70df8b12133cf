// A formula as MathML, the meaning of each symbol, and below it the same formula with the current
// values.

import { drawing, element } from "../shared/dom.js";

export class FormulaView {
  /**
   * @param {HTMLElement} box
   * @param {import("./lesson_text.js").LessonText} text
   */
  constructor(box, text) {
    this.box = box;
    this.text = text;
    /** @type {LessonFormulaRecord | null} */
    this.formula = null;
  }

  /** @param {LessonFormulaRecord | null} formula */
  show(formula) {
    this.formula = formula;
    this.box.hidden = formula === null;
    this.box.replaceChildren();
    if (!formula) return;
    this.general = mathOf(formula);
    this.inNumbers = mathOf(formula);
    const meanings = element("p", "hint", "Point at a symbol for its meaning.");
    this.box.append(this.general, this.inNumbers, meanings);
    for (const { name, meaning } of formula.symbols) {
      for (const symbol of symbols(this.general, name)) {
        symbol.setAttribute("tabindex", "0");
        symbol.setAttribute("role", "button");
        symbol.dataset.term = "";
        symbol.dataset.meaning = meaning;
      }
    }
    this.refresh();
  }

  refresh() {
    const { formula, general } = this;
    if (!formula || !general) return;
    const inNumbers = mathOf(formula);
    this.inNumbers?.replaceWith(inNumbers);
    this.inNumbers = inNumbers;
    for (const { name, meaning, value } of formula.symbols) {
      const number = this.text.write(value);
      for (const symbol of symbols(inNumbers, name))
        symbol.replaceWith(leaf(inNumbers, "mn", number));
      for (const symbol of symbols(general, name)) {
        symbol.dataset.title = `${symbol.textContent} = ${number}`;
        symbol.dataset.meaning = meaning;
      }
    }
    if (formula.result)
      inNumbers.append(
        leaf(inNumbers, "mo", "="),
        leaf(inNumbers, "mn", this.text.write(formula.result)),
      );
  }
}

/** @param {LessonFormulaRecord} formula */
function mathOf({ mathml }) {
  return drawing(`<math display="block">${mathml}</math>`);
}

/**
 * @param {Element} math
 * @param {string} name
 * @returns {NodeListOf<any>}
 */
function symbols(math, name) {
  return math.querySelectorAll(`[data-symbol="${name}"]`);
}

/**
 * @param {Element} math
 * @param {string} tag
 * @param {string} text
 */
function leaf(math, tag, text) {
  const made = document.createElementNS(math.namespaceURI, tag);
  made.textContent = text;
  return made;
}
