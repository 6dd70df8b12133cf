// The buttons of a widget that shows a measurement: one measures on this machine, the other shows a
// recording from another machine. A line below says which of the two is shown.

import { element, setText } from "../shared/dom.js";

export class MeasureRow {
  /**
   * @param {RecordedOrder | undefined} recorded
   * @param {{ measure: () => void, replay: () => void, stop?: () => void }} on
   */
  constructor(recorded, { measure, replay, stop }) {
    this.recorded = recorded;
    this.go = element("button", "primary", "Measure it here");
    this.go.type = "button";
    this.go.dataset.measure = "";
    this.go.addEventListener("click", measure);
    this.old = element("button", "secondary", "Show a recorded run");
    this.old.type = "button";
    this.old.dataset.replay = "";
    this.old.addEventListener("click", replay);
    this.end = element("button", "secondary", "Stop"); // visible during a measurement that the learner can stop
    this.end.type = "button";
    this.end.hidden = true;
    if (stop) this.end.addEventListener("click", stop);
    this.canEnd = stop !== undefined;
    this.state = element("p", "hint measure-state");
    this.state.setAttribute("role", "status");
    this.box = element("div", "measure-row");
    const buttons = element("p", "row tight forward-go");
    buttons.append(this.go, this.end, this.old);
    this.box.append(buttons, this.state);
    this.setRecorded(recorded);
  }

  /** @param {RecordedOrder | undefined} recorded */
  setRecorded(recorded) {
    this.recorded = recorded;
    this.old.hidden = !recorded;
  }

  /** @param {string} words */
  say(words) {
    setText(this.state, words);
  }

  // Disable the measure button during a measurement. The button of the recording stays enabled, so
  // that the learner need not wait.
  /** @param {boolean} isBusy */
  setBusy(isBusy) {
    this.go.disabled = isBusy;
    this.end.hidden = !isBusy || !this.canEnd;
  }

  // Say whether the shown numbers were measured just now or recorded.
  /** @param {boolean} isRecorded */
  tell(isRecorded) {
    this.setBusy(false);
    this.say(isRecorded ? `Recorded on ${this.recorded?.machine}.` : "Measured here, just now.");
  }
}
