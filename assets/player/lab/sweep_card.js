// The card of a sweep. It runs the sweep, stores it, shows its charts, and opens and saves its
// file.

import { setText, takeFile } from "../shared/dom.js";
import { download } from "../step/trace_file.js";
import { BatchCard } from "./batch_card.js";
import { KeptSweep } from "./kept_sweep.js";
import { LabRun } from "./lab_run.js";
import { SweepForm } from "./sweep_form.js";
import { SweepViews } from "./sweep_views.js";
import { leftWords } from "../shared/number_words.js";

const NAME = "specviz-sweep";

export class SweepCard {
  // `setting()` returns the form with the models and prompts. `onPoint(point)` is called with the
  // selected point. `onResult()` is called when there is a result.
  /**
   * @param {Refs} refs
   * @param {Theme} theme
   * @param {Setup} setup
   * @param {GradioLink} gradio
   * @param {{ setting: () => SettingForm, onPoint: (point: any, words: string) => void, onResult: () => void }} on
   */
  constructor(refs, theme, setup, gradio, { setting, onPoint, onResult }) {
    this.refs = refs;
    this.setting = setting;
    this.onPoint = onPoint;
    this.onResult = onResult;
    this.sweep = new KeptSweep();
    this.picked = null;
    this.hasFailed = false; // true if the run failed and its error is shown
    this.form = new SweepForm(refs, setup, setting);
    this.views = new SweepViews(
      refs,
      theme,
      setup.lab.sweep.axes,
      (place) => ((this.picked = place), this.draw()),
    );
    this.batch = new BatchCard(refs, gradio, () => this.sweep.file);
    this.run = new LabRun(
      { go: refs.sweepGo, stop: refs.sweepStop, state: refs.sweepState },
      gradio,
      {
        begun: () => this.begun(),
        message: (message) => this.take(message),
        failed: (text) => this.failed(text),
        ended: () => this.drawState(),
      },
    );
    refs.sweepForm.addEventListener(
      "submit",
      (/** @type {any} */ event) => (event.preventDefault(), this.start()),
    );
    refs.sweepRest.addEventListener("click", () => this.goOn());
    refs.sweepOpen.addEventListener("click", () => refs.sweepFile.click());
    refs.sweepFile.addEventListener("change", () => this.openFile());
    refs.sweepSave.addEventListener("click", () =>
      download(new Blob([this.sweep.file]), `${NAME}.jsonl`),
    );
    refs.sweepCsv.addEventListener("click", () => this.saveTable());
  }

  // Restore the sweep that this tab had before a reload. The reload has ended a running sweep.
  recall() {
    if (!this.sweep.recall()) return;
    const { length } = this.sweep.points;
    this.run.showState(
      this.sweep.isComplete
        ? ""
        : `Leaving the page ends a sweep: ${length} of ${this.sweep.size} points are kept.`,
    );
    this.draw();
  }

  start() {
    if (this.run.isBusy) return;
    this.form.clearErrors();
    this.setting().clearErrors();
    this.refs.sweepError.hidden = true;
    this.isRest = false;
    if (!this.form.refuses()) this.run.start("sweep", this.form.order);
  }

  // Reset the form to a sweep over the default draft lengths of a method, and start it.
  /** @param {string} method */
  startWith(method) {
    this.form.varyLength(method);
    this.refs.sweepSentence.closest("section").scrollIntoView();
    this.start();
  }

  goOn() {
    const { file, noise } = this.sweep;
    this.refs.sweepError.hidden = true;
    this.isRest = true;
    this.run.start("sweep", { file, noise });
  }

  begun() {
    const { refs } = this;
    this.isPlanned = this.hasFailed = false;
    refs.sweepRest.hidden = true;
    refs.sweepBar.hidden = false;
    refs.sweepBar.removeAttribute("value"); // without a value the bar shows that the length is unknown
    if (refs.sweepState.getBoundingClientRect().top > window.innerHeight)
      refs.sweepSentence.closest("section").scrollIntoView();
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "plan") this.planned(message.line);
    if (message.kind === "noise") this.sweep.setNoise(message.noise);
    if (message.kind === "point") this.sweep.add(message.line);
    if (message.kind === "point" || message.kind === "noise") this.draw();
    if (message.kind === "progress") this.showProgress(message);
    if (message.kind === "end")
      this.run.showState(message.reason === "done" ? "" : this.stoppedWords);
  }

  get stoppedWords() {
    return this.isPlanned
      ? `stopped: ${this.sweep.points.length} of ${this.sweep.size} points`
      : "stopped before it began";
  }

  // Take the plan of the new sweep. The previous sweep is replaced only now, so that a sweep that
  // the server refuses does not remove it.
  /** @param {string} line */
  planned(line) {
    this.isPlanned = true;
    if (!this.isRest) {
      this.sweep.clear();
      this.picked = null;
    }
    this.sweep.begin(line);
    this.draw();
  }

  /** @param {Reply} message */
  showProgress({ noise, repeats, done, points, seconds_left: left }) {
    if (noise !== undefined)
      return this.run.showState(
        `measuring the noise of this machine: ${noise + 1} of ${repeats} …`,
      );
    this.refs.sweepBar.value = done / points;
    this.run.showState(`${done} of ${points} points${leftWords(left)}`);
  }

  // Ask the server for the charts. Only one request runs at a time; if the sweep changes in the
  // meantime, another request follows.
  /** @returns {Promise<void>} */
  async draw() {
    if (this.sweep.isEmpty) return;
    if (this.isDrawing) return void (this.isStale = true);
    this.isDrawing = true;
    const { file, noise } = this.sweep;
    const reply = await this.run.transport.ask("draw", { file, noise, picked: this.picked });
    this.isDrawing = false;
    if (this.isStale) return ((this.isStale = false), this.draw());
    if (reply === null && this.hasFailed) return; // the error of the failed run is already shown
    if (reply === null || reply.error)
      return this.showError(reply?.error ?? "The server cannot be reached.");
    setText(this.refs.sweepSentence, reply.sentence);
    setText(this.refs.sweepSetting, reply.setting);
    this.views.draw(reply, this.sweep);
    this.batch.setPoint(reply);
    this.drawState();
    this.onPoint(this.views.picked, reply.picked_words);
    if (reply.picked !== null) (this.form.fold.close(), this.onResult());
  }

  drawState() {
    const { refs, run, sweep } = this;
    const has = !sweep.isEmpty && sweep.points.length > 0;
    refs.sweepBar.hidden = !run.isBusy;
    refs.sweepLesson.hidden = has || run.isBusy;
    refs.sweepSave.hidden = refs.sweepCsv.hidden = !has;
    refs.sweepRest.hidden = run.isBusy || sweep.isEmpty || sweep.isComplete;
  }

  /** @param {string} text */
  failed(text) {
    this.hasFailed = true;
    this.refs.sweepError.hidden = true; // show only one error: the one next to the button
    this.form.showError(text);
    this.drawState();
  }

  /** @param {string} text */
  showError(text) {
    setText(this.refs.sweepError, text);
    this.refs.sweepError.hidden = false;
  }

  async openFile() {
    const file = takeFile(this.refs.sweepFile);
    if (!file || this.run.isBusy) return;
    const text = await file.text();
    const reply = await this.run.transport.ask("draw", { file: text, noise: [] });
    this.refs.sweepError.hidden = true;
    if (reply === null || reply.error)
      return this.showError(`${file.name}: ${reply?.error ?? "the server cannot be reached"}`);
    this.sweep.setFile(text);
    this.picked = null;
    this.run.showState(`${file.name} · the noise of its machine is not in the file`);
    this.draw();
  }

  async saveTable() {
    const reply = await this.run.transport.ask("table", { file: this.sweep.file });
    if (reply?.csv) download(new Blob([reply.csv], { type: "text/csv" }), `${NAME}.csv`);
    else this.showError(reply?.error ?? "The server cannot be reached.");
  }
}
