// Draws at most once per animation frame, however often it is asked.
// Hidden tabs get no frames; what they missed is drawn when they show again.

const SHARE = 2; // of the time, one part in this many at the most goes to drawing what comes by itself

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
      setTimeout(() => (this.lastTook = performance.now() - this.lastBegan)); // with the browser's own part
    });
  }

  // For what nobody waits for, such as the next round of a run: keys and clicks find time between.
  askAtLeisure() {
    if (this.isAsked || this.rest !== null) return;
    const wait = this.lastBegan + SHARE * this.lastTook - performance.now();
    if (wait <= 0) this.ask();
    else this.rest = setTimeout(() => this.ask(), wait);
  }
}
