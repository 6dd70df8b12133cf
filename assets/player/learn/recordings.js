// Recorded runs for lessons. A recording is loaded once. It shows a real run, and the server needs
// no model to play it.

import { Trace } from "../shared/trace.js";
import { Transport } from "../shared/transport.js";

export class Recordings {
  /** @param {GradioLink} gradio */
  constructor(gradio) {
    /** @type {Map<string, Promise<Trace>>} */
    this.opened = new Map();
    this.trace = new Trace();
    /** @type {{ done(trace: Trace): void, failed(error: Error): void } | null} */
    this.waiting = null;
    /** @type {Promise<any>} */
    this.last = Promise.resolve(); // recordings load one after another
    this.transport = new Transport(gradio, {
      accepted: () => {},
      message: (message) => this.take(message),
      queued: () => {},
      failed: (text) => this.end((waiting) => waiting.failed(new Error(text))),
    });
  }

  // Load a whole recording. If that fails, the promise is rejected with a sentence, and the next
  // call tries again.
  /** @param {string} name */
  open(name) {
    const known = this.opened.get(name);
    if (known) return known;
    const opening = this.last.then(() => this.begin(name));
    this.last = opening.catch(() => {});
    opening.catch(() => this.opened.delete(name));
    this.opened.set(name, opening);
    return opening;
  }

  /**
   * @param {string} name
   * @returns {Promise<Trace>}
   */
  begin(name) {
    this.trace = new Trace();
    return new Promise((done, failed) => {
      this.waiting = { done, failed };
      this.transport.open({ golden: name });
    });
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "error")
      return this.end((waiting) => waiting.failed(new Error(message.text)));
    this.trace.take(message);
    if (message.kind === "end") this.end((waiting) => waiting.done(this.trace));
  }

  /** @param {(waiting: { done(trace: Trace): void, failed(error: Error): void }) => void} tell */
  end(tell) {
    const { waiting } = this;
    this.waiting = null;
    if (waiting) tell(waiting);
  }
}
