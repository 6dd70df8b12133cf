// The app. It makes all pages, shows the page that the address names, and passes events on to that
// page.

import { PAGES } from "./pages.js";
import { ClassRoom } from "./room/class_room.js";
import { element, references, setText } from "./shared/dom.js";
import { pageIn, pageLink, setPage } from "./shared/page_parameter.js";
import { Surround } from "./shared/surround.js";

export class App {
  /**
   * @param {HTMLElement} root
   * @param {Setup} setup
   * @param {HeldOut} prompts
   * @param {GradioLink} gradio
   */
  constructor(root, setup, prompts, gradio) {
    const refs = references(root);
    this.root = root;
    this.refs = refs;
    this.setup = setup;
    this.prompts = prompts;
    this.gradio = gradio;
    /** @type {Record<string, Page>} */
    this.pages = {};
    this.current = ""; // name of the shown page
    const surround = new Surround(root, refs, setup, {
      page: () => this.shown,
      repaint: () => this.all.forEach((page) => page.repaint()),
    });
    this.theme = surround.theme;
    setText(refs.device, setup.device);
    for (const Page of PAGES) this.pages[Page.id] = new Page(this);
    refs.tabs.append(...PAGES.map(tab));
    // clicks on a tab, on a link to a page, or on a link to a position in a page
    root.addEventListener("click", (/** @type {any} */ event) => this.clicked(event));
    root.addEventListener("click", (event) => this.jump(event));
    window.addEventListener("popstate", () => this.returned());
    this.show(this.asked, false);
    this.room = new ClassRoom(this, gradio);
  }

  get all() {
    return Object.values(this.pages);
  }

  get shown() {
    return this.pages[this.current];
  }

  // The name of the page in the address.
  get asked() {
    const name = pageIn(new URLSearchParams(window.location.search));
    return PAGES.find(({ id }) => id === name)?.id ?? PAGES[0].id;
  }

  /** @param {any} event */
  clicked(event) {
    const link = event.target.closest("a[data-page], a[data-to], a[data-place]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.dataset.place !== undefined) return this.enter(link.href);
    if (event.detail) link.blur(); // remove the focus after a click, so that keys go to the page
    this.show(link.dataset.page ?? link.dataset.to);
  }

  // Open an address inside the app. The address may name a position in a page.
  /** @param {string} address */
  enter(address) {
    window.history.pushState(null, "", address);
    this.returned();
  }

  returned() {
    this.show(this.asked, false);
    this.shown.returned();
  }

  // Show another address, because the teacher of a class has moved there. The move adds no entry to
  // the history.
  /** @param {string} search the query part of the address */
  follow(search) {
    const url = new URL(window.location.href);
    url.search = search;
    window.history.replaceState(null, "", url);
    this.show(this.asked, false);
    this.shown.followed();
  }

  /**
   * @param {string} id
   * @param {boolean} [isNew]
   */
  show(id, isNew = true) {
    if (id === this.current) return;
    if (isNew) window.history.pushState(null, "", this.addressOf(id));
    this.current = id;
    for (const link of this.refs.tabs.querySelectorAll("a[data-page]")) {
      if (link.dataset.page === id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    for (const page of this.all) page.section.hidden = page !== this.shown;
    for (const page of this.all) page.setShown(page === this.shown);
    window.scrollTo(0, 0);
  }

  // Return the address of a page. The parameters of all pages are removed; the page writes its own
  // when it is shown.
  /** @param {string} id */
  addressOf(id) {
    const url = new URL(window.location.href);
    for (const name of [...url.searchParams.keys()]) {
      if (this.all.some((page) => page.owns(name))) url.searchParams.delete(name);
    }
    setPage(url.searchParams, id);
    return url.href;
  }

  // Scroll to the target of a link inside the page. The browser cannot do that itself, because
  // Gradio's <base> element changes where such links lead.
  /** @param {any} event */
  jump(event) {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    const goal = this.root.querySelector(link.getAttribute("href"));
    const isStill = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    goal.scrollIntoView({ behavior: isStill ? "auto" : "smooth" });
    goal.focus({ preventScroll: true });
  }
}

/** @param {{ id: string, title: string }} page */
function tab({ id, title }) {
  const link = element("a", "", title);
  link.href = pageLink(id);
  link.dataset.page = id;
  return link;
}
