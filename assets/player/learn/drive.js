// Runs that the server makes for the course's widgets. Only one runs at a time.

import { waitingWords } from "../shared/number_words.js";
import { Transport } from "../shared/transport.js";

// The listeners of a run. `message(message)` receives the run's own messages. `state(words)`
// receives a status text while the run waits or loads models. `failed(text)` receives an error
// sentence. `ended()` is called last, unless the run failed.
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

  // Start a run; the run of another widget is stopped first. `what` is the server's name of the run
  // (specviz/ui/course/course.py).
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

  // Replay a recorded run by delivering all its messages at once.
  /**
   * @param {RecordedOrder} recorded
   * @param {(message: any) => void} take
   */
  replay({ messages }, take) {
    this.leave();
    for (const message of messages) if (message.kind !== "end") take(message);
  }

  // Stop the run soon. Measurements that finish before that still arrive.
  stop() {
    return this.transport.stop();
  }

  // Stop listening after the learner has left the lesson.
  leave() {
    this.transport.leave();
    this.on = NOBODY;
  }

  // Ask the server a question that needs no run. Return null if there is no answer.
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
