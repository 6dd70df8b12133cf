// Where the cards for stops and forks stand: beside the moments, or on a narrow screen below the
// text, before the profiler. They move in the document itself, so that keys and screen readers meet
// the cards in the order in which they are seen. Knows the cards by name; nothing of what they do.

const NARROW = "(max-width: 900px)"; // as in step.css

export class CardOrder {
  constructor({ side, stopsCard, fork, textCard }) {
    this.side = side;
    this.textCard = textCard;
    this.cards = [stopsCard, fork].filter((card) => card.isConnected); // a report has no fork
    const narrow = window.matchMedia(NARROW);
    narrow.addEventListener("change", () => this.place(narrow.matches));
    this.place(narrow.matches);
  }

  place(isNarrow) {
    const focused = document.activeElement;
    if (isNarrow) this.textCard.after(...this.cards);
    else this.side.append(...this.cards);
    if (this.cards.some((card) => card.contains(focused))) focused.focus({ preventScroll: true });
  }
}
