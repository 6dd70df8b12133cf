// Parts of a page that stand elsewhere on a narrow screen. They move in the document itself, so that keys and
// screen readers meet them in the order in which they are seen.

const NARROW = "(max-width: 900px)"; // as in the pages' CSS

export class NarrowOrder {
  // `place(isNarrow)`: the element behind which they stand, before which, or at whose end.
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

  // True where the parts have moved; what has the focus keeps it.
  draw() {
    const { parts } = this;
    const goal = this.place(this.isNarrow);
    if (isAt(parts, goal)) return false;
    const focused = document.activeElement;
    if ("after" in goal) goal.after.after(...parts);
    else if ("before" in goal) goal.before.before(...parts);
    else goal.into.append(...parts);
    if (focused instanceof HTMLElement && parts.some((part) => part.contains(focused))) focused.focus({ preventScroll: true });
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
