// Which page of the app is shown: its tab, its part of the document, its name in the address.
// Knows names only; a page hears when it is shown and when it goes.

const PARAMETER = "view"; // Gradio keeps "page" for itself

const OF_A_MOMENT = ["trace", "round", "pos", "axis"]; // the debugger writes them again where it is shown
const OF_THE_LAB = "lab-"; // so does the lab

export class Pages {
  // `pages`: name -> { section, onShow(isShown), onReturn() by Back or Forward }; the first is shown where the address names none.
  constructor(nav, pages) {
    Object.assign(this, { nav, pages });
    nav.addEventListener("click", (event) => this.clicked(event));
    window.addEventListener("popstate", () => this.returned());
    this.show(this.asked, false);
  }

  get asked() {
    const name = new URLSearchParams(window.location.search).get(PARAMETER);
    return Object.hasOwn(this.pages, name ?? "") ? name : Object.keys(this.pages)[0];
  }

  clicked(event) {
    const link = event.target.closest("a[data-page]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.show(link.dataset.page);
  }

  returned() {
    this.show(this.asked, false);
    this.pages[this.current].onReturn?.();
  }

  show(name, isNew = true) {
    if (name === this.current) return;
    if (isNew) window.history.pushState(null, "", addressOf(name));
    this.current = name;
    for (const link of this.nav.querySelectorAll("a[data-page]")) {
      if (link.dataset.page === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    for (const [each, { section }] of Object.entries(this.pages)) section.hidden = each !== name;
    for (const [each, { onShow }] of Object.entries(this.pages)) onShow(each === name);
    window.scrollTo(0, 0);
  }
}

function addressOf(name) {
  const url = new URL(window.location.href);
  for (const each of [...url.searchParams.keys()]) {
    if (OF_A_MOMENT.includes(each) || each.startsWith(OF_THE_LAB)) url.searchParams.delete(each);
  }
  url.searchParams.set(PARAMETER, name);
  return url.href;
}
