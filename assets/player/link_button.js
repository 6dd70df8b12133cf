// The button that copies a link to what is shown, and says what came of it.
// Knows an address that writes its own link and says what it cannot do.

import { setText } from "./dom.js";

const BACK_MILLISECONDS = 3500;

export class LinkButton {
  // `address()`: that of the page which is shown.
  constructor(button, word, address) {
    Object.assign(this, { word, ask: address });
    button.addEventListener("click", () => this.copy());
  }

  async copy() {
    const { word } = this;
    const address = this.ask();
    address.write();
    const isCopied = await copied(address.link);
    const { linkLimit } = address;
    const said = isCopied ? "Copied" : "Copy the address bar";
    setText(word, linkLimit ? `${said}, ${linkLimit}` : said);
    window.setTimeout(() => setText(word, "Copy link"), BACK_MILLISECONDS);
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
