// The page of the glossary: every term with its definition and a link to a place in the app that
// shows it, a search, and an address for each term.

import { element, setText } from "../shared/dom.js";
import { counted } from "../shared/number_words.js";
import { Page } from "../shared/page.js";
import { pageLink } from "../shared/page_parameter.js";
import { foundTerms } from "./found_terms.js";

const TERM = "term"; // parameter of the address

export class GlossaryPage extends Page {
  static id = "glossary";
  static title = "Glossary";

  /** @param {Shell} shell */
  constructor(shell) {
    super(shell);
    const { refs, setup } = shell;
    this.refs = refs;
    this.glossary = setup.glossary;
    this.places = setup.places;
    this.chosen = ""; // key of the term in the address
    /** @type {string[]} */
    this.found = []; // keys of the listed terms
    /** @type {Map<string, HTMLElement>} */
    this.entries = new Map();
    refs.glossarySearch.addEventListener("input", () => this.search());
    refs.glossarySearch.addEventListener("keydown", (/** @type {any} */ event) =>
      this.press(event),
    );
  }

  /** @param {boolean} isShown */
  setShown(isShown) {
    this.isShown = isShown;
    if (!isShown) return;
    if (!this.entries.size) this.fill();
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
      position: (/** @type {number} */ by) => this.move(by),
      first: () => this.move(-Infinity),
      last: () => this.move(Infinity),
      search: () => this.refs.glossarySearch.select(),
    };
  }

  fill() {
    for (const key of foundTerms(this.glossary, "")) this.entries.set(key, this.entry(key));
    this.search();
  }

  /** @param {string} key */
  entry(key) {
    const { title, definition, formula } = this.glossary[key];
    const made = element("li", "glossary-term");
    const heading = element("h3");
    const link = element("a", "", title);
    link.href = addressOf(`&${TERM}=${key}`);
    link.dataset.place = "";
    heading.append(link);
    made.append(heading, element("p", "", definition));
    if (formula) made.append(element("code", "", formula));
    made.append(this.seen(this.places[key]));
    return made;
  }

  /** @param {{ title: string, address: string }[]} places */
  seen(places) {
    const line = element("p", "glossary-seen hint", "See it: ");
    places.forEach(({ title, address }, at) => {
      const link = element("a", "", title);
      link.href = new URL(`?${address}`, window.location.href).href;
      link.dataset.place = "";
      line.append(at ? " · " : "", link);
    });
    return line;
  }

  // Show the terms that the search finds, in its order.
  search() {
    const { glossarySearch, glossaryTerms, glossaryCount } = this.refs;
    this.found = foundTerms(this.glossary, glossarySearch.value);
    glossaryTerms.replaceChildren(
      ...this.found.map((key) => /** @type {HTMLElement} */ (this.entries.get(key))),
    );
    const word = glossarySearch.value.trim();
    setText(
      glossaryCount,
      this.found.length ? counted(this.found.length, "term") : `no term has “${word}”`,
    );
  }

  // Enter moves to the first term of the search. Escape clears the search.
  /** @param {KeyboardEvent} event */
  press(event) {
    if (event.key === "Enter" && this.found.length) {
      event.preventDefault();
      this.go(this.found[0]);
    } else if (event.key === "Escape" && this.refs.glossarySearch.value) {
      event.preventDefault();
      this.refs.glossarySearch.value = "";
      this.search();
    }
  }

  // Scroll to the term in the address and focus its link. Clear the search if it hides the term.
  land() {
    const key = new URLSearchParams(window.location.search).get(TERM) ?? "";
    this.mark(this.entries.has(key) ? key : "");
    const entry = this.entries.get(this.chosen);
    if (!entry) return;
    if (!this.found.includes(this.chosen)) {
      this.refs.glossarySearch.value = "";
      this.search();
    }
    entry.scrollIntoView({ block: "center" });
    entry.querySelector("a")?.focus({ preventScroll: true });
  }

  /** @param {string} key */
  go(key) {
    window.history.pushState(null, "", addressOf(`&${TERM}=${key}`));
    this.land();
  }

  /** @param {number} by */
  move(by) {
    const { found } = this;
    const at = found.indexOf(this.chosen);
    const next =
      found[
        Math.min(found.length - 1, Math.max(0, at < 0 && by > 0 && by < Infinity ? 0 : at + by))
      ];
    if (next) this.go(next);
  }

  /** @param {string} key */
  mark(key) {
    this.entries.get(this.chosen)?.removeAttribute("aria-current");
    this.chosen = key;
    this.entries.get(key)?.setAttribute("aria-current", "true");
  }
}

/** @param {string} rest */
function addressOf(rest) {
  return new URL(pageLink(GlossaryPage.id) + rest, window.location.href).href;
}
