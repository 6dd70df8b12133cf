// A run that goes on: follow it, hold it, let it through by one round. While it is held the decoder really
// waits. A race and a fork may both be under way: it remembers of each whether it is held, and tells
// whoever listens to "held" of the race.

import { setText } from "../shared/dom.js";

export class LiveRun {
  // `ask(what)` tells the server "pause", "advance" or "resume" of the run at hand.
  /**
   * @param {Refs} refs
   * @param {(what: string) => void} ask
   */
  constructor(refs, ask) {
    this.refs = refs;
    this.ask = ask;
    /** @type {Record<string, boolean>} */
    this.held = { race: false, fork: false };
    this.name = "race"; // of the run at hand
    refs.hold.addEventListener("click", () => this.toggle());
    refs.advance.addEventListener("click", () => this.isHeld && this.ask("advance"));
  }

  get isHeld() {
    return this.held[this.name];
  }

  // A race began, perhaps held.
  /** @param {boolean} isHeld */
  begin(isHeld) {
    this.keep("race", isHeld);
  }

  /**
   * @param {string} name
   * @param {boolean} isHeld
   */
  keep(name, isHeld) {
    this.held[name] = isHeld;
    if (name === "race") this.refs.live.dispatchEvent(new CustomEvent("held", { detail: isHeld }));
  }

  // It could not be held.
  letGo() {
    this.keep(this.name, false);
    this.show();
  }

  toggle() {
    this.keep(this.name, !this.isHeld);
    this.ask(this.isHeld ? "pause" : "resume");
    this.show();
  }

  // `isLive`: the run that is shown goes on, and is this page's to hold.
  /**
   * @param {boolean} isLive
   * @param {boolean} isForking
   */
  draw(isLive, isForking) {
    this.name = isForking ? "fork" : "race";
    if (!isForking) this.held.fork = false;
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
