// Experiments for a class: a question first, then the races that answer it, side by side in numbers.

import { element, setText } from "../shared/dom.js";
import { measured, presetAnswer } from "./preset_answer.js";

export class ClassPresets {
  /**
   * @param {Refs} refs
   * @param {ClassPreset[]} presets
   * @param {{ onRun: (query: Record<string, string>) => void, onClose: () => void }} on `onClose`: no experiment is open any more
   */
  constructor(refs, presets, { onRun, onClose }) {
    this.refs = refs;
    this.onRun = onRun;
    this.onClose = onClose;
    /** @type {ClassPreset | null} the one that is open */
    this.shown = null;
    /** @type {({ summary: RunSummaryRecord, words: string } | null)[]} what each run of it measured, null before */
    this.found = [];
    this.running = -1; // the run that was pressed for
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

  // The row of all of them, which nobody needs who sees the page for the first time.
  /** @param {boolean} isOpen */
  open(isOpen) {
    this.refs.experiments.hidden = !isOpen;
    this.refs.openPresets.setAttribute("aria-expanded", String(isOpen));
    if (!isOpen) this.show(null);
  }

  // Its question, before anything has run.
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

  // While a race goes on there is no other; one that is over without numbers was none of ours.
  /** @param {boolean} isBusy */
  setBusy(isBusy) {
    this.isBusy = isBusy;
    this.running = -1;
    this.draw();
  }

  // A race has ended by itself; one of somebody's own setting is no run of ours.
  /**
   * @param {RunSummaryRecord} summary
   * @param {Lane} lane
   */
  ended(summary, lane) {
    if (this.running >= 0) this.found[this.running] = { summary, words: measured(summary, lane.config.temperature) };
  }

  draw() {
    const { refs, shown } = this;
    for (const each of this.buttons) each.setAttribute("aria-pressed", String(each.dataset.preset === shown?.name));
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
