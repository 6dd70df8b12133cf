// A widget that shows what one order of the course has found: measured on this machine, or recorded on
// another. Keeps what was found by the name of its recording, so that steps can go back and forth.

import { MeasureRow } from "./measure_row.js";
import { Widget } from "./widget.js";

export class OrderWidget extends Widget {
  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   * @param {string} what the order, which sends one message of this kind
   */
  constructor(box, course, on, what) {
    super(box, course, on);
    this.what = what;
    this.name = what; // of the recording
    /** @type {object} */
    this.question = {};
    /** @type {Map<string, { message: any, isRecorded: boolean }>} */
    this.results = new Map();
    /** @type {Record<string, string>} */
    this.scene = {};
    this.row = new MeasureRow(undefined, { measure: () => this.measure(), replay: () => this.replay(), stop: () => this.halt() });
  }

  // The pair that the page begins with.
  get pairForm() {
    return { pair: this.course.setup.settings.find(({ name }) => name === "pair")?.default };
  }

  // What is asked from now on; `isShown`: whatever is known is shown at once, a recording if need be.
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

  // The message of the order, null while there is none.
  get found() {
    return this.results.get(this.name)?.message ?? null;
  }

  // The recorded message: what does not depend on the machine is known before anything is measured.
  get planned() {
    return this.row.recorded?.messages.find(({ kind }) => kind === this.what) ?? null;
  }

  measure() {
    const { name } = this;
    /** @type {any} */
    let result = null;
    this.row.setBusy(true);
    this.course.drive.start(this.what, this.question, {
      message: (message) => (message.kind === this.what ? (result = message) : this.row.say(this.progress(message))),
      state: (words) => this.row.say(words),
      failed: (text) => (this.row.setBusy(false), this.row.say(text)),
      ended: () => (result ? this.take(name, result, false) : (this.row.setBusy(false), this.row.say("Stopped."))),
    });
  }

  replay() {
    const { name } = this;
    const { recorded } = this.row;
    if (recorded) this.course.drive.replay(recorded, (message) => this.take(name, message, true));
  }

  /** @param {any} message of kind progress */
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

  // The order's message is there.
  came() {
    this.draw();
    this.on.reached("shown");
  }

  draw() {}

  // What a question hid may be seen: what was measured, else the recording.
  showFound() {
    this.row.box.hidden = false;
    if (!this.found) this.replay();
  }

  halt() {
    this.course.drive.stop();
  }
}
