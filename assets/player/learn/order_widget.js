// A widget that shows the result of one run of the course, which is measured on this machine or
// recorded on another. It stores results by the name of their recording, so that the learner can
// move between steps.

import { MeasureRow } from "./measure_row.js";
import { Widget } from "./widget.js";

export class OrderWidget extends Widget {
  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   * @param {string} what the server's name of the run, which is also the kind of its result message
   */
  constructor(box, course, on, what) {
    super(box, course, on);
    this.what = what;
    this.name = what; // the name of the recording
    /** @type {object} */
    this.question = {};
    /** @type {Map<string, { message: any, isRecorded: boolean }>} */
    this.results = new Map();
    /** @type {Record<string, string>} */
    this.scene = {};
    this.row = new MeasureRow(undefined, {
      measure: () => this.measure(),
      replay: () => this.replay(),
      stop: () => this.halt(),
    });
  }

  // The pair of models that the app uses by default, as a form.
  get pairForm() {
    return { pair: this.course.setup.settings.find(({ name }) => name === "pair")?.default };
  }

  // Set what the current step asks the server to measure. If `isShown`, show a result at once: the
  // latest measurement, or the recording if nothing was measured.
  /**
   * @param {string} name
   * @param {object} question
   * @param {boolean} isShown
   */
  setOrder(name, question, isShown) {
    this.name = name;
    this.question = question;
    this.row.setRecorded(this.course.recorded[name]);
    this.row.setBusy(false);
    const known = this.results.get(name);
    if (known) this.row.tell(known.isRecorded);
    else if (isShown) this.replay();
    else this.row.say("");
  }

  // The message with the current result, or null if there is none.
  get found() {
    return this.results.get(this.name)?.message ?? null;
  }

  // The message of the recording, or null if there is none. The widget shows some of its values
  // even before a measurement, because they are the same on every machine.
  get planned() {
    return this.row.recorded?.messages.find(({ kind }) => kind === this.what) ?? null;
  }

  measure() {
    const { name } = this;
    /** @type {any} */
    let result = null;
    this.row.setBusy(true);
    this.course.drive.start(this.what, this.question, {
      message: (message) =>
        message.kind === this.what ? (result = message) : this.row.say(this.progress(message)),
      state: (words) => this.row.say(words),
      failed: (text) => (this.row.setBusy(false), this.row.say(text)),
      ended: () =>
        result
          ? this.take(name, result, false)
          : (this.row.setBusy(false), this.row.say("Stopped.")),
    });
  }

  replay() {
    const { name } = this;
    const { recorded } = this.row;
    if (recorded) this.course.drive.replay(recorded, (message) => this.take(name, message, true));
  }

  /** @param {any} message a message of the kind "progress" */
  progress({ done, points }) {
    return points ? `${done} of ${points}` : "under way …";
  }

  /**
   * @param {string} name
   * @param {any} message
   * @param {boolean} isRecorded
   */
  take(name, message, isRecorded) {
    this.results.set(name, { message, isRecorded });
    if (name !== this.name) return;
    this.row.tell(isRecorded);
    this.came();
    this.on.changed();
  }

  // Called when a result has arrived.
  came() {
    this.draw();
    this.on.reached("shown");
  }

  draw() {}

  // Show the result that was hidden while the learner answered a question: the measurement if there
  // is one, otherwise the recording.
  showFound() {
    this.row.box.hidden = false;
    if (!this.found) this.replay();
  }

  halt() {
    this.course.drive.stop();
  }
}
