// What every page of the app is: an object of this shape, listed in pages.js. A further page is a folder
// with its HTML and CSS, a class that extends this one, and a line in that list.

export class Page {
  // Of the subclass: `id` is the page's name in the address (?view=…), its folder, and the name of its HTML
  // file in it; `title` stands on its tab.
  static id = "";
  static title = "";

  // `shell` is the app: root, refs (elements by data-ref), theme, setup, prompts, gradio, `pages` by their
  // ids (those before this one in the list), and show(id).
  /** @param {Shell} shell */
  constructor(shell) {
    this.shell = shell;
    const { id } = /** @type {typeof Page} */ (this.constructor);
    this.section = /** @type {HTMLElement} */ (shell.root.querySelector(`#${id}`)); // it shows and goes with the page
  }

  // It is shown now, or it went.
  /** @param {boolean} _isShown */
  setShown(_isShown) {}

  // Back or Forward led to an entry of the history that is of this page.
  returned() {}

  // Its address names a place that somebody else chose.
  followed() {
    this.returned();
  }

  // What of it its address does not show to others, "" for nothing.
  /** @returns {string} */
  get unseen() {
    return this.address.linkLimit ? "this: it is in your browser only" : "";
  }

  // Why it has no question, where one is missed.
  /** @returns {string} */
  get unasked() {
    return "";
  }

  // What people may be asked about what it shows, null for nothing.
  /** @returns {PageQuestion | null} */
  get question() {
    return null;
  }

  // What keys do on it, by the names in keyboard.js; `lead` goes one step on or back for whoever leads a class, also
  // past a question that only the class has answered.
  get actions() {
    return {};
  }

  // Whether a step forward (1) or back (-1) leads anywhere now.
  /** @param {number} _by */
  canMove(_by) {
    return true;
  }

  // For the button that copies a link: { link, linkLimit, write() }.
  get address() {
    return { link: window.location.href, linkLimit: "", write() {} };
  }

  // Whether a parameter of the address is of this page alone: it goes where another page is entered.
  /** @param {string} _parameter */
  owns(_parameter) {
    return false;
  }

  // Another theme, or another size of type.
  repaint() {}

  // Escape: end whatever of it runs or waits.
  halt() {}
}
