// The base class of all pages of the app, which pages.js lists. To add a page, create a folder with
// its state, its view and its CSS, a class that extends this one, and a line in that list.

import { element } from "./dom.js";

export class Page {
  // Each subclass sets `id` and `title`. `id` is the name of the page in the address (?view=…), of
  // its folder and of its HTML file. `title` is the text on its tab.
  static id = "";
  static title = "";
  // True if the page draws all its elements as a function of its state (shared/store.js). Such a
  // page has no HTML file.
  static isView = false;

  // `shell` is the app. It has root, refs (elements by data-ref), theme, setup, prompts, gradio,
  // `pages` (by id; only pages earlier in the list) and show(id).
  /** @param {Shell} shell */
  constructor(shell) {
    this.shell = shell;
    const { id, isView } = /** @type {typeof Page} */ (this.constructor);
    // the element of the page, which is shown or hidden
    this.section = /** @type {HTMLElement} */ (
      isView ? sectionOf(id) : shell.root.querySelector(`#${id}`)
    );
    if (isView) shell.root.append(this.section);
  }

  // Called when the page is shown or hidden.
  /** @param {boolean} _isShown */
  setShown(_isShown) {}

  // Called when the user has moved with Back or Forward to a history entry of this page.
  returned() {}

  // Called when the leader of a class has moved to this page's address.
  followed() {
    this.returned();
  }

  // Say what this page shows but its address does not contain, or "" if a link is complete.
  /** @returns {string} */
  get unseen() {
    return this.address.linkLimit ? "this: it is in your browser only" : "";
  }

  // Explain to a teacher why the page offers no question, or return "".
  /** @returns {string} */
  get unasked() {
    return "";
  }

  // The question that a teacher can ask a class about the shown content, or null.
  /** @returns {PageQuestion | null} */
  get question() {
    return null;
  }

  // The actions of this page, keyed by their names in keyboard.js, which maps keys to them. The
  // action `lead` is for the leader of a class. It moves the page one step forward or back. If the
  // page waits for the answer to a question, `lead` moves forward without an answer, because only
  // the class has to answer.
  get actions() {
    return {};
  }

  // Return whether the user can move one step forward (`_by` is 1) or back (-1) now.
  /** @param {number} _by */
  canMove(_by) {
    return true;
  }

  // The current address, with the parts that the copy button for links needs: { link, linkLimit,
  // write() }.
  get address() {
    return { link: window.location.href, linkLimit: "", write() {} };
  }

  // Return whether a parameter of the address belongs only to this page. The app removes such
  // parameters when another page opens.
  /** @param {string} _parameter */
  owns(_parameter) {
    return false;
  }

  // Called after a change of theme or text size, to draw everything again.
  repaint() {}

  // Called on Escape. It ends everything on the page that runs or waits.
  halt() {}
}

/** @param {string} id */
function sectionOf(id) {
  const made = element("div", id);
  made.id = id;
  made.hidden = true;
  return made;
}
