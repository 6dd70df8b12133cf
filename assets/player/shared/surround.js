// What surrounds the pages, in the app as in a report: theme, size of type, the list of keys, words that
// explain themselves, the button that copies a link.

import { setText } from "./dom.js";
import { Keyboard, keyRows } from "./keyboard.js";
import { Terms } from "./terms.js";
import { Theme } from "./theme.js";

export class Surround {
  // `page()` is the one that is shown, `repaint()` draws all anew; `isAlone`: the debugger without a server.
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
    new Keyboard(() => ({ list, halt, ...page().actions }), () => root.isConnected);
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

// The button that copies a link to what is shown, and says what came of it.
const BACK_MILLISECONDS = 3500;

class LinkButton {
  // `address()`: that of the page which is shown.
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

  // `isAnswer`: what came of it is read on a narrow screen too, which has room for the icon alone.
  /**
   * @param {string} text
   * @param {boolean} isAnswer
   */
  showAnswer(text, isAnswer) {
    setText(this.word, text);
    this.button.classList.toggle("is-answering", isAnswer);
  }
}

// Whether it is on the clipboard now.
/** @param {string} text */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // pages without https may not write to the clipboard
  }
}
