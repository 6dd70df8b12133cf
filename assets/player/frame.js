// Draws at most once per animation frame, however often it is asked.
// Hidden tabs get no frames; what they missed is drawn when they show again.

export class Frame {
  constructor(draw) {
    this.draw = draw;
    this.isAsked = false;
  }

  ask() {
    if (this.isAsked) return;
    this.isAsked = true;
    requestAnimationFrame(() => {
      this.isAsked = false;
      this.draw();
    });
  }
}
