// A word and its definition: a card that opens where a word is pointed at, focused or touched, and goes
// with Escape.

import { element } from "./dom.js";

const GAP = 8;
const PHONE_PIXELS = 640; // of the width, as in the style sheets

// A word that explains itself.
/**
 * @param {string} text
 * @param {string} key
 */
export function termButton(text, key) {
  const made = element("button", "term", text);
  made.type = "button";
  made.dataset.term = key;
  return made;
}

export class Terms {
  /**
   * @param {HTMLElement} root
   * @param {Glossary} glossary
   */
  constructor(root, glossary) {
    this.glossary = glossary;
    this.card = element("div", "tooltip term-card");
    this.card.role = "tooltip";
    this.card.id = "sv-term";
    /** @type {HTMLElement | null} */
    this.word = null;
    this.hide();
    root.append(this.card);
    root.addEventListener("pointerover", ({ target, pointerType }) => pointerType === "mouse" && this.pointed(target));
    root.addEventListener("focusin", ({ target }) => this.turn(target));
    root.addEventListener("click", ({ target }) => this.turn(target));
    root.addEventListener("keydown", (event) => this.press(event));
    window.addEventListener("scroll", () => this.follow(), { passive: true, capture: true });
  }

  // The pointer may rest on the card itself.
  /** @param {any} target */
  pointed(target) {
    if (!this.card.contains(target) && !target.closest("[data-term]:focus")) this.turn(target);
  }

  /** @param {any} target */
  turn(target) {
    const word = target.closest("[data-term]");
    if (word) this.show(word);
    else if (!this.card.contains(target)) this.hide();
  }

  // Escape is spent on the card: it stops no race.
  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.key !== "Escape" || this.card.hidden) return;
    event.preventDefault();
    this.hide();
  }

  /** @param {HTMLElement} word */
  show(word) {
    const { title, definition, formula } = this.meaningOf(word);
    if (this.word !== word) this.hide();
    this.word = word;
    word.setAttribute("aria-describedby", this.card.id);
    this.card.replaceChildren(element("b", "", title), element("p", "", definition));
    if (formula) this.card.append(element("code", "", formula));
    this.card.hidden = false;
    this.place(word.getBoundingClientRect());
  }

  // A word of the glossary, or one that brings its meaning along.
  /** @param {HTMLElement} word */
  meaningOf({ dataset: { term = "", title = "", meaning } }) {
    return meaning ? { title, definition: meaning, formula: "" } : this.glossary[term];
  }

  follow() {
    if (this.word) this.place(this.word.getBoundingClientRect());
  }

  // Beside the word; on a phone, where it would cover the numbers that the word names, at the edge farther from it.
  /** @param {DOMRect} word */
  place({ left, top, bottom }) {
    const { offsetWidth: width, offsetHeight: height } = this.card;
    if (window.innerWidth <= PHONE_PIXELS) {
      const isHigh = top + bottom < window.innerHeight;
      Object.assign(this.card.style, { left: `${GAP}px`, top: `${isHigh ? window.innerHeight - height - GAP : GAP}px` });
      return;
    }
    const isBelow = bottom + height + GAP < window.innerHeight;
    this.card.style.left = `${Math.max(GAP, Math.min(left, document.documentElement.clientWidth - width - GAP))}px`;
    this.card.style.top = `${isBelow ? bottom + GAP / 2 : Math.max(GAP, top - height - GAP / 2)}px`;
  }

  // Keys are the page's again: a word that kept the focus would open its card anew at Space.
  hide() {
    const { word } = this;
    word?.removeAttribute("aria-describedby");
    this.word = null;
    this.card.hidden = true;
    if (word && word === document.activeElement) word.blur();
  }
}
