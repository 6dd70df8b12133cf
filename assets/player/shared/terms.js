// Words with a definition. A card with the definition opens when the user points at a word, focuses
// it or touches it. Escape closes the card.

import { element } from "./dom.js";

const GAP = 8;
const PHONE_PIXELS = 640; // largest width of a phone's screen, the same as in the style sheets

// Return a word that shows its definition.
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
    root.addEventListener(
      "pointerover",
      ({ target, pointerType }) => pointerType === "mouse" && this.pointed(target),
    );
    root.addEventListener("focusin", ({ target }) => this.turn(target));
    root.addEventListener("click", ({ target }) => this.turn(target));
    root.addEventListener("keydown", (event) => this.press(event));
    window.addEventListener("scroll", () => this.follow(), { passive: true, capture: true });
  }

  // The card stays open while the pointer is on it.
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

  // Escape closes the card. It does not also stop a race.
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

  // Return the definition of a word: from the glossary, or from the word's own attributes.
  /** @param {HTMLElement} word */
  meaningOf({ dataset: { term = "", title = "", meaning } }) {
    return meaning ? { title, definition: meaning, formula: "" } : this.glossary[term];
  }

  follow() {
    if (this.word) this.place(this.word.getBoundingClientRect());
  }

  // Place the card next to the word. On a phone it would cover the numbers next to the word, so it
  // goes to the top or bottom edge, whichever is farther away.
  /** @param {DOMRect} word */
  place({ left, top, bottom }) {
    const { offsetWidth: width, offsetHeight: height } = this.card;
    if (window.innerWidth <= PHONE_PIXELS) {
      const isHigh = top + bottom < window.innerHeight;
      Object.assign(this.card.style, {
        left: `${GAP}px`,
        top: `${isHigh ? window.innerHeight - height - GAP : GAP}px`,
      });
      return;
    }
    const isBelow = bottom + height + GAP < window.innerHeight;
    this.card.style.left = `${Math.max(GAP, Math.min(left, document.documentElement.clientWidth - width - GAP))}px`;
    this.card.style.top = `${isBelow ? bottom + GAP / 2 : Math.max(GAP, top - height - GAP / 2)}px`;
  }

  // Close the card and take the focus from the word. Otherwise the Space key would open the card
  // again instead of playing the run.
  hide() {
    const { word } = this;
    word?.removeAttribute("aria-describedby");
    this.word = null;
    this.card.hidden = true;
    if (word && word === document.activeElement) word.blur();
  }
}
