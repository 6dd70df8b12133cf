// The parts around all pages, in the app and in a report: theme, text size, the list of keys, words
// with a definition, and the button that copies a link.

import { setText } from "./dom.js";
import { Keyboard, keyRows } from "./keyboard.js";
import { Terms } from "./terms.js";
import { Theme } from "./theme.js";

export class Surround {
  // `page()` returns the current page, and `repaint()` draws everything again. `isAlone` is true
  // for a report, which contains only the debugger.
  /**
   * @param {HTMLElement} root
   * @param {Refs} refs
   * @param {{ palettes: Record<string, Palette>, glossary: Glossary }} setup
   * @param {{ page: () => ShownPage, repaint: () => void, isAlone?: boolean }} on
   */
  constructor(root, refs, setup, { page, repaint, isAlone = false }) {
    this.refs = refs;
    this.theme = new Theme(root, setup.palettes, repaint);
    new Terms(root, setup.glossary);
    new LinkButton(refs.copyLink, refs.copyWord, () => page().address);
    const list = () => refs.keys.showModal();
    const halt = () => page().halt();
    new Keyboard(
      () => ({ list, halt, ...page().actions }),
      () => root.isConnected,
    );
    refs.keyList.append(...keyRows({ isAlone }));
    refs.openKeys.addEventListener("click", list);
    refs.theme.addEventListener("click", () => this.theme.toggle());
    refs.large.addEventListener("click", () => {
      this.theme.toggleLarge();
      this.showSize();
    });
    this.showSize();
  }

  showSize() {
    this.refs.large.setAttribute("aria-pressed", String(this.theme.isLarge));
  }
}

// After this time, the button that copies a link shows its usual label again, instead of saying
// whether copying worked.
const BACK_MILLISECONDS = 3500;

class LinkButton {
  // `address()` returns the address of the current page.
  /**
   * @param {HTMLElement} button
   * @param {HTMLElement} word
   * @param {() => PageAddress} address
   */
  constructor(button, word, address) {
    this.button = button;
    this.word = word;
    this.ask = address;
    button.addEventListener("click", () => this.copy());
  }

  async copy() {
    const address = this.ask();
    address.write();
    const isCopied = await copied(address.link);
    const { linkLimit } = address;
    const said = isCopied ? "Copied" : "Copy the address bar";
    this.showAnswer(linkLimit ? `${said}, ${linkLimit}` : said, true);
    window.setTimeout(() => this.showAnswer("Copy link", false), BACK_MILLISECONDS);
  }

  // Show a text in the button. `isAnswer` is true if the text is the result of a click. It is then
  // also visible on a narrow screen, where the button otherwise has only an icon.
  /**
   * @param {string} text
   * @param {boolean} isAnswer
   */
  showAnswer(text, isAnswer) {
    setText(this.word, text);
    this.button.classList.toggle("is-answering", isAnswer);
  }
}

// Copy a text to the clipboard. The promise resolves to true if that worked.
/** @param {string} text */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // browsers let only pages with https write to the clipboard
  }
}
