// Says that a scrolling box goes on below what is in sight, and scrolls on at a press.
// Knows the box, a mark at the end of what it holds, and what covers its lower edge.

export class Fold {
  constructor(box, { end, cover, button }) {
    const ended = ([{ isIntersecting, boundingClientRect, rootBounds }]) => {
      button.hidden = isIntersecting || boundingClientRect.top < rootBounds.top;
    };
    const below = Math.round(cover.getBoundingClientRect().height);
    new IntersectionObserver(ended, { root: box, rootMargin: `0px 0px -${below}px 0px` }).observe(end);
    button.addEventListener("click", () => box.scrollBy({ top: box.clientHeight * 0.6 }));
  }
}
