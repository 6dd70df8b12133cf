// What surrounds the pages, in the app as in a report: theme, size of type, the list of keys, words that
// explain themselves, the button that copies a link.

import { Keyboard, keyRows } from "./keyboard.js";
import { LinkButton } from "./link_button.js";
import { Terms } from "./terms.js";
import { Theme } from "./theme.js";

export class Surround {
  // `page()` is the one that is shown, `repaint()` draws all anew; `isAlone`: the debugger without a server.
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
      this.tellSize();
    });
    this.tellSize();
  }

  tellSize() {
    this.refs.large.setAttribute("aria-pressed", String(this.theme.isLarge));
  }
}
