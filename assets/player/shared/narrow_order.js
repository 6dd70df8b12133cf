// Moves parts of a page on a narrow screen. The elements move in the document itself, not only
// visually, so that the Tab key and screen readers follow the visible order.

const NARROW = "(max-width: 900px)"; // the same width as in the CSS of the pages

export class NarrowOrder {
  // `place(isNarrow)` returns where the parts belong: after an element, before one, or at the end
  // inside one.
  /**
   * @param {HTMLElement[]} parts
   * @param {(isNarrow: boolean) => { after: HTMLElement } | { before: HTMLElement } | { into: HTMLElement }} place
   */
  constructor(parts, place) {
    this.parts = parts;
    this.place = place;
    this.media = window.matchMedia(NARROW);
    this.media.addEventListener("change", () => this.draw());
    this.draw();
  }

  get isNarrow() {
    return this.media.matches;
  }

  // Move the parts if necessary and return true if they moved. The focused element keeps the focus.
  draw() {
    const { parts } = this;
    const goal = this.place(this.isNarrow);
    if (isAt(parts, goal)) return false;
    const focused = document.activeElement;
    if ("after" in goal) goal.after.after(...parts);
    else if ("before" in goal) goal.before.before(...parts);
    else goal.into.append(...parts);
    if (focused instanceof HTMLElement && parts.some((part) => part.contains(focused)))
      focused.focus({ preventScroll: true });
    return true;
  }
}

/**
 * @param {HTMLElement[]} parts
 * @param {{ after: HTMLElement } | { before: HTMLElement } | { into: HTMLElement }} goal
 */
function isAt(parts, goal) {
  if ("after" in goal) return parts[0].previousElementSibling === goal.after;
  if ("before" in goal) return parts.at(-1)?.nextElementSibling === goal.before;
  return parts[0].parentElement === goal.into;
}
