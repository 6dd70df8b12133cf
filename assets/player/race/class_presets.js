// Experiments for a class. Each shows a question first, and then the races that answer it, with
// their numbers side by side.

import { element, setText } from "../shared/dom.js";
import { measured, presetAnswer } from "./preset_answer.js";

export class ClassPresets {
  /**
   * @param {Refs} refs
   * @param {ClassPreset[]} presets
   * @param {{ onRun: (query: Record<string, string>) => void, onClose: () => void }} on `onClose` is called when the open experiment is closed
   */
  constructor(refs, presets, { onRun, onClose }) {
    this.refs = refs;
    this.onRun = onRun;
    this.onClose = onClose;
    /** @type {ClassPreset | null} the open experiment */
    this.shown = null;
    /** @type {({ summary: RunSummaryRecord, words: string } | null)[]} the result of each race of the experiment, null before the race has run */
    this.found = [];
    this.running = -1; // index of the experiment's race that is running, -1 if none is
    this.isBusy = false;
    this.buttons = presets.map((preset) => this.button(preset));
    refs.presets.append(...this.buttons);
    refs.presetClose.addEventListener("click", () => this.show(null));
    refs.openPresets.addEventListener("click", () => this.open(refs.experiments.hidden));
  }

  /** @param {ClassPreset} preset */
  button(preset) {
    const made = element("button", "chip", preset.title);
    made.type = "button";
    made.dataset.preset = preset.name;
    made.addEventListener("click", () => this.show(preset === this.shown ? null : preset));
    return made;
  }

  // Show or hide the list of all experiments. It is hidden at first, because a new visitor does not
  // need it.
  /** @param {boolean} isOpen */
  open(isOpen) {
    this.refs.experiments.hidden = !isOpen;
    this.refs.openPresets.setAttribute("aria-expanded", String(isOpen));
    if (!isOpen) this.show(null);
  }

  // Open an experiment and show its question before any of its races has run.
  /** @param {ClassPreset | null} preset */
  show(preset) {
    this.shown = preset;
    this.found = preset ? preset.runs.map(() => null) : [];
    this.running = -1;
    this.draw();
    if (!preset) this.onClose();
  }

  /** @param {number} at */
  run(at) {
    if (!this.shown) return;
    this.onRun(this.shown.runs[at].query);
    if (this.isBusy) this.running = at;
    this.draw();
  }

  // Record whether a race is running, and set `running` to -1. If the race belongs to the
  // experiment, run() sets `running` to its index after this call. When a race ends, `ended` uses
  // `running` before this call.
  /** @param {boolean} isBusy */
  setBusy(isBusy) {
    this.isBusy = isBusy;
    this.running = -1;
    this.draw();
  }

  // Record the result of a finished race, if it was one of the experiment's races.
  /**
   * @param {RunSummaryRecord} summary
   * @param {Lane} lane
   */
  ended(summary, lane) {
    if (this.running >= 0)
      this.found[this.running] = { summary, words: measured(summary, lane.config.temperature) };
  }

  draw() {
    const { refs, shown } = this;
    for (const each of this.buttons)
      each.setAttribute("aria-pressed", String(each.dataset.preset === shown?.name));
    refs.preset.hidden = !shown;
    if (!shown) return;
    setText(refs.presetQuestion, shown.question);
    refs.presetModels.hidden = !shown.runs.some(({ query }) => query.pair);
    refs.presetRuns.replaceChildren(...shown.runs.map((run, at) => this.row(run.label, at)));
    const runs = this.found.flatMap((each) => each?.summary ?? []);
    const isAnswered = runs.length === shown.runs.length;
    setText(refs.presetAnswer, isAnswered ? presetAnswer(shown, runs) : "");
    refs.presetAnswer.hidden = !isAnswered;
  }

  /**
   * @param {string} label
   * @param {number} at
   */
  row(label, at) {
    const row = element("li");
    const button = element("button", "secondary", `Race: ${label}`);
    button.type = "button";
    button.disabled = this.isBusy;
    button.addEventListener("click", () => this.run(at));
    const word = this.found[at]?.words || (this.running === at ? "racing …" : "not run yet");
    row.append(button, element("span", this.found[at] ? "" : "hint", word));
    return row;
  }
}
