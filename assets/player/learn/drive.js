// What lessons have the server run: one order at a time, of whichever widget asks.

import { waitingWords } from "../shared/number_words.js";
import { Transport } from "../shared/transport.js";

// `message(message)` hears what is the order's own, `state(words)` what to say while it waits or loads,
// `failed(text)` a sentence; `ended()` comes last, unless it failed.
/** @typedef {{ message: (message: any) => void, state: (words: string) => void, failed: (text: string) => void, ended: () => void }} DriveEvents */

/** @type {DriveEvents} */
const NOBODY = { message: () => {}, state: () => {}, failed: () => {}, ended: () => {} };

export class Drive {
  /** @param {GradioLink} gradio */
  constructor(gradio) {
    this.on = NOBODY;
    this.transport = new Transport(gradio, {
      accepted: () => this.on.state("starting …"),
      message: (message) => this.take(message),
      queued: (...ahead) => this.on.state(waitingWords(...ahead)),
      failed: (text) => this.on.failed(text),
    });
  }

  get isBusy() {
    return this.transport.isBusy;
  }

  // `what`: a name of the server's orders (specviz/ui/course/course.py). What another widget has under way ends.
  /**
   * @param {string} what
   * @param {object} question
   * @param {DriveEvents} on
   */
  start(what, question, on) {
    this.transport.leave();
    this.on = on;
    return this.transport.start("drive", { what, ...question });
  }

  // An order that was recorded: all its messages at once.
  /**
   * @param {RecordedOrder} recorded
   * @param {(message: any) => void} take
   */
  replay({ messages }, take) {
    this.leave();
    for (const message of messages) if (message.kind !== "end") take(message);
  }

  // Soon: what was measured until then still comes.
  stop() {
    return this.transport.stop();
  }

  // The lesson was left: nobody hears any more.
  leave() {
    this.transport.leave();
    this.on = NOBODY;
  }

  // A plain question, answered at once; null where no answer came.
  /**
   * @param {string} name
   * @param {object} question
   */
  ask(name, question) {
    return this.transport.ask(name, question);
  }

  /** @param {any} message */
  take(message) {
    const { kind, pair, text } = message;
    if (kind === "error") this.on.failed(text);
    else if (kind === "loading") this.on.state(`loading ${pair} …`);
    else if (kind === "end") this.on.ended();
    else this.on.message(message);
  }
}
