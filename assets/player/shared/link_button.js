// The button that copies a link to what is shown, and says what came of it.
// Knows an address that writes its own link and says what it cannot do.

import { setText } from "./dom.js";

const BACK_MILLISECONDS = 3500;

export class LinkButton {
  // `address()`: that of the page which is shown.
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
    this.tell(linkLimit ? `${said}, ${linkLimit}` : said, true);
    window.setTimeout(() => this.tell("Copy link", false), BACK_MILLISECONDS);
  }

  // `isAnswer`: what came of it is read on a narrow screen too, which has room for the icon alone.
  tell(text, isAnswer) {
    setText(this.word, text);
    this.button.classList.toggle("is-telling", isAnswer);
  }
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // pages without https may not write to the clipboard
  }
}
