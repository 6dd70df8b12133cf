// The card that decodes the batch of the selected point on request, and then shows it text by text
// and round by round.

import { setText } from "../shared/dom.js";
import { BatchRows, roundWords } from "../shared/batch_rows.js";
import { LabRun } from "./lab_run.js";

export class BatchCard {
  // `sweep()` returns the text of the sweep's file.
  /**
   * @param {Refs} refs
   * @param {GradioLink} gradio
   * @param {() => string} sweep
   */
  constructor(refs, gradio, sweep) {
    this.refs = refs;
    this.sweep = sweep;
    /** @type {number | null} */
    this.picked = null;
    this.point = ""; // the sweep's plan and the index of the selected point
    this.words = ""; // description of the point that was decoded
    /** @type {import("../shared/batch_rows.js").BatchMessage | null} */
    this.found = null;
    this.rows = new BatchRows();
    refs.batchRows.append(this.rows.box);
    this.run = new LabRun(
      { go: refs.batchGo, stop: refs.batchStop, state: refs.batchState },
      gradio,
      {
        begun: () => this.forget(),
        message: (message) => this.take(message),
        failed: (text) => this.showError(text),
      },
    );
    refs.batchGo.addEventListener("click", () => this.start());
    refs.batchRound.addEventListener("input", () => this.draw());
  }

  // Show another point, perhaps of another sweep. The card is hidden for a point with a single
  // text, because that is not a batch.
  /** @param {{ picked: number | null, picked_rows: number, picked_words: string }} reply */
  setPoint({ picked, picked_rows: rows, picked_words: words }) {
    const [plan] = this.sweep().split("\n", 1);
    const point = `${plan} ${picked}`;
    this.refs.batchCard.hidden = rows < 2;
    if (this.point === point) return;
    Object.assign(this, { picked, point });
    setText(this.refs.batchWords, words);
    if (!this.run.isBusy) this.forget();
  }

  start() {
    this.words = this.refs.batchWords.textContent;
    this.run.start("batch", { file: this.sweep(), picked: this.picked });
  }

  forget() {
    this.found = null;
    this.refs.batchError.hidden = this.refs.batchResult.hidden = true;
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "progress")
      this.run.showState(
        `${message.lane === "baseline" ? "plain" : "with drafts"}: round ${message.done}`,
      );
    if (message.kind === "end") this.run.showState("");
    if (message.kind !== "batch") return;
    const { batchRound, batchResult } = this.refs;
    this.found = message;
    batchRound.max = batchRound.value = String(message.steps.length);
    batchResult.hidden = false;
    this.draw();
  }

  draw() {
    if (!this.found) return;
    const { batchRound, batchSaid } = this.refs;
    const at = Number(batchRound.value);
    batchRound.style.setProperty("--fill", `${(100 * at) / this.found.steps.length}%`);
    setText(batchSaid, roundWords(this.found, at, `At ${this.words}, round`));
    this.rows.draw(this.found.rows, at);
  }

  /** @param {string} text */
  showError(text) {
    setText(this.refs.batchError, text);
    this.refs.batchError.hidden = false;
  }
}
