// What only a server can do at a moment: another draw thought through, a fork, a live run held.
// Knows these three by name; a page without a server has none of them.

import { ForkForm } from "./fork_form.js";
import { LiveRun } from "./live_run.js";
import { WhatIf } from "./what_if.js";

export class ServerViews {
  // `ask(name, question)` asks the server; `onFork` hears of an order to fork, `onHold` of one to
  // hold the run, `onChange` that another draw is thought of.
  constructor(refs, { ask, methods, onFork, onHold, onChange }) {
    this.whatIf = new WhatIf(refs, ask, onChange);
    this.fork = new ForkForm(refs, methods, this.whatIf, onFork);
    this.live = new LiveRun(refs, onHold);
  }

  // The round as it would have been with the draw that is thought of, or null.
  get thought() {
    return this.whatIf.thought;
  }

  clear() {
    this.whatIf.clear();
  }

  draw(trace, cursor, { isForking }) {
    this.whatIf.draw(trace, cursor);
    this.fork.draw(trace, cursor, isForking);
  }
}
