// A run that goes on: follow it, hold it, let it through by one round. While it is held the decoder
// really waits. Knows the buttons and asks the server; what a run is does not concern it.

import { setText } from "../dom.js";

export class LiveRun {
  // `ask(what)` tells the server "pause", "advance" or "resume" of the run at hand.
  constructor(refs, ask) {
    Object.assign(this, { refs, ask });
    this.isHeld = false;
    refs.hold.addEventListener("click", () => this.toggle());
    refs.advance.addEventListener("click", () => this.isHeld && this.ask("advance"));
  }

  // A race began, perhaps held.
  begin(isHeld) {
    this.isHeld = isHeld;
  }

  toggle() {
    this.isHeld = !this.isHeld;
    this.ask(this.isHeld ? "pause" : "resume");
    this.show();
  }

  // `isLive`: the run that is shown goes on, and is this page's to hold.
  draw(isLive) {
    if (!isLive) this.isHeld = false;
    this.refs.live.hidden = !isLive;
    this.show();
  }

  show() {
    const { hold, advance } = this.refs;
    hold.setAttribute("aria-pressed", String(this.isHeld));
    setText(hold, this.isHeld ? "Let it go on" : "Hold the run");
    advance.hidden = !this.isHeld;
  }
}
