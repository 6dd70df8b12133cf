// The page of the glossary: every term with its definition and a link to a place in the app that
// shows it, a search, and an address for each term.

import { Page } from "../shared/page.js";
import { Store } from "../shared/store.js";
import { render } from "../shared/view.js";
import { foundTerms } from "./found_terms.js";
import { landed, neighbour, PAGE, queryOf, searched, START, TERM } from "./glossary_state.js";
import { glossaryView } from "./glossary_view.js";

export class GlossaryPage extends Page {
  static id = PAGE;
  static title = "Glossary";
  static isView = true;

  /** @param {Shell} shell */
  constructor(shell) {
    super(shell);
    const { glossary, places } = shell.setup;
    this.glossary = glossary;
    const offer = { glossary, places, linkTo: hrefOf };
    const on = {
      searched: (/** @type {string} */ typed) => this.store.act(searched, typed),
      pressed: (/** @type {KeyboardEvent} */ event) => this.press(event),
    };
    this.store = new Store(START, (state) => render(glossaryView(state, offer, on), this.section));
  }

  /** @param {boolean} isShown */
  setShown(isShown) {
    this.isShown = isShown;
    if (!isShown) return;
    this.store.draw();
    // wait one frame, because otherwise the browser scrolls to the top afterwards
    requestAnimationFrame(() => this.isShown && this.land());
  }

  returned() {
    this.land();
  }

  /** @param {string} parameter */
  owns(parameter) {
    return parameter === TERM;
  }

  get actions() {
    if (!this.isShown) return {};
    return {
      position: (/** @type {number} */ by) =>
        this.go(neighbour(this.store.state, this.glossary, by)),
      first: () => this.go(neighbour(this.store.state, this.glossary, -Infinity)),
      last: () => this.go(neighbour(this.store.state, this.glossary, Infinity)),
      search: () => this.section.querySelector("input")?.select(),
    };
  }

  // Enter moves to the first term of the search. Escape clears the search.
  /** @param {KeyboardEvent} event */
  press(event) {
    const { typed } = this.store.state;
    const [first] = foundTerms(this.glossary, typed);
    if (event.key === "Enter" && first) {
      event.preventDefault();
      this.go(first);
    } else if (event.key === "Escape" && typed) {
      event.preventDefault();
      this.store.act(searched, "");
    }
  }

  /** @param {string | undefined} key */
  go(key) {
    if (!key) return;
    window.history.pushState(null, "", hrefOf(queryOf(key)));
    this.land();
  }

  // Scroll to the term in the address and focus its link.
  land() {
    const key = new URLSearchParams(window.location.search).get(TERM) ?? "";
    this.store.act(landed, this.glossary, key);
    this.store.draw();
    const entry = this.section.querySelector("[aria-current]");
    entry?.scrollIntoView({ block: "center" });
    entry?.querySelector("a")?.focus({ preventScroll: true });
  }
}

// Return the address of a query. A relative link would follow Gradio's <base> element instead.
/** @param {string} query */
function hrefOf(query) {
  return new URL(query, window.location.href).href;
}
