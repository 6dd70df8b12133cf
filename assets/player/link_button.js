// The button that copies a link to what is shown, and says what came of it.
// Knows an address that writes and measures its own link.

import { setText } from "./dom.js";

const BACK_MILLISECONDS = 2000;

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
    setText(word, address.fits === false ? "Copied, without the long prompt" : isCopied ? "Copied" : "Copy the address bar");
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
