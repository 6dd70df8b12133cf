// Parts of a page that stand elsewhere on a narrow screen. They move in the document itself, so that keys and
// screen readers meet them in the order in which they are seen.

const NARROW = "(max-width: 900px)"; // as in the pages' CSS

export class NarrowOrder {
  // `place(isNarrow)`: the element behind which they stand, or at whose end.
  /**
   * @param {HTMLElement[]} parts
   * @param {(isNarrow: boolean) => { after: HTMLElement } | { into: HTMLElement }} place
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

  // True where the parts have moved; what has the focus keeps it.
  draw() {
    const { parts } = this;
    const goal = this.place(this.isNarrow);
    const isThere = "after" in goal ? parts[0].previousElementSibling === goal.after : parts[0].parentElement === goal.into;
    if (isThere) return false;
    const focused = document.activeElement;
    if ("after" in goal) goal.after.after(...parts);
    else goal.into.append(...parts);
    if (focused instanceof HTMLElement && parts.some((part) => part.contains(focused))) focused.focus({ preventScroll: true });
    return true;
  }
}
