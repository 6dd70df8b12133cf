// The controls of a running decode: follow it, pause it, or let it run one more round. While it is
// paused the decoder on the server really waits. A race and a fork can run at the same time, so
// this class stores two states, one for each. It sends the event "held" when the race is paused or
// continues.

import { setText } from "../shared/dom.js";

export class LiveRun {
  // `ask(what)` sends "pause", "advance" or "resume" to the server for the current run.
  /**
   * @param {Refs} refs
   * @param {(what: string) => void} ask
   */
  constructor(refs, ask) {
    this.refs = refs;
    this.ask = ask;
    /** @type {Record<string, boolean>} */
    this.held = { race: false, fork: false };
    this.name = "race"; // which run the buttons control: "race" or "fork"
    refs.hold.addEventListener("click", () => this.toggle());
    refs.advance.addEventListener("click", () => this.isHeld && this.ask("advance"));
  }

  get isHeld() {
    return this.held[this.name];
  }

  // Start to control a new race. `isHeld` is true if it starts paused.
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

  // Show the run as running again, because the server refused to pause it.
  letGo() {
    this.keep(this.name, false);
    this.show();
  }

  toggle() {
    this.keep(this.name, !this.isHeld);
    this.ask(this.isHeld ? "pause" : "resume");
    this.show();
  }

  // `isLive` is true if the run in the debugger is still running and this page may pause it.
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
