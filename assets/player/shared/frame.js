// Draws at most once per animation frame, however often a drawing is requested. A hidden tab gets
// no frames and draws once it is visible again.

const SHARE = 2; // drawings that the user did not cause may take at most 1/SHARE of the time

export class Frame {
  /** @param {() => void} draw */
  constructor(draw) {
    this.draw = draw;
    this.isAsked = false;
    this.rest = null;
    this.lastBegan = this.lastTook = 0;
  }

  ask() {
    clearTimeout(this.rest ?? undefined);
    this.rest = null;
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      this.lastBegan = performance.now();
      this.draw();
      // `lastTook` includes the time of the browser's own layout and painting
      setTimeout(() => (this.lastTook = performance.now() - this.lastBegan));
    });
  }

  // Request a drawing that the user does not wait for, such as the next round of a run. It waits if
  // drawings take so long that keys and clicks would be delayed.
  askAtLeisure() {
    if (this.isAsked || this.rest !== null) return;
    const wait = this.lastBegan + SHARE * this.lastTook - performance.now();
    if (wait <= 0) this.ask();
    else this.rest = setTimeout(() => this.ask(), wait);
  }
}
