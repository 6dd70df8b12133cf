// The card "Should I speculate?": a button that measures, and the advice with its reasons.

import { element, setText } from "../shared/dom.js";
import { FieldErrors } from "../shared/field_errors.js";
import { tab } from "../shared/kept.js";
import { got, numberProblem } from "../shared/settings.js";
import { body, bodyRow, headRow } from "./cells.js";
import { LabRun } from "./lab_run.js";

const NAME = "advice"; // the name under which the tab stores the advice
const HEADINGS = [
  "method",
  "speedup",
  "interval",
  "acceptance rate α",
  "tokens per target forward τ",
  "from",
];

export class AdviceCard {
  // `setting()` returns the form with the models and prompts. `sweepFile()` returns the file of the
  // current sweep; the advisor first tries the fastest setting in it. `onSweep(method)` starts a
  // sweep of the recommended method. `onResult()` is called when there is a result.
  /**
   * @param {Refs} refs
   * @param {Setup} setup
   * @param {GradioLink} gradio
   * @param {{ setting: () => SettingForm, sweepFile: () => string, onSweep: (method: string) => void, onResult: () => void }} on
   */
  constructor(refs, { lab, methods }, gradio, { setting, sweepFile, onSweep, onResult }) {
    this.refs = refs;
    this.methods = methods.map(({ name }) => name);
    this.setting = setting;
    this.sweepFile = sweepFile;
    this.onResult = onResult;
    this.advice = null;
    refs.adviceSeconds.value = String(lab.advice.seconds);
    const fields = {
      method: refs.adviceMethods,
      methods: refs.adviceMethods,
      batch: refs.adviceBatch,
      batch_size: refs.adviceBatch,
      seconds: refs.adviceSeconds,
    };
    this.errors = new FieldErrors(refs.adviceError.closest("section"), fields, () => [
      {
        name: "methods",
        control: refs.adviceMethods,
        problem: (text) => this.methodsProblem(text),
      },
      {
        name: "batch_size",
        control: refs.adviceBatch,
        problem: (text) => numberProblem(lab.bounds.batch_size, text),
      },
      {
        name: "seconds",
        control: refs.adviceSeconds,
        problem: (text) => numberProblem(lab.bounds.seconds, text),
      },
    ]);
    this.run = new LabRun(
      { go: refs.adviceGo, stop: refs.adviceStop, state: refs.adviceState },
      gradio,
      {
        begun: () => this.begun(),
        message: (message) => this.take(message),
        failed: (text) => this.setting().show(text) || this.errors.report(text),
      },
    );
    refs.adviceGo.addEventListener("click", () => this.start());
    refs.adviceSweep.addEventListener("click", () => onSweep(this.advice.best.candidate.method));
    for (const ref of ["adviceMethods", "adviceBatch", "adviceSeconds"])
      refs[ref].addEventListener(
        "keydown",
        (/** @type {any} */ event) => event.key === "Enter" && this.start(),
      );
  }

  // Show again the advice that the tab showed before a reload.
  recall() {
    const advice = tab.recall(NAME, isAdvice);
    if (!advice) return;
    this.begun();
    this.show(advice);
  }

  start() {
    const { adviceMethods, adviceBatch, adviceSeconds } = this.refs;
    this.setting().clearErrors();
    if (this.errors.refuses() || this.setting().refuses()) return;
    this.run.start("advice", {
      ...this.setting().order,
      methods: adviceMethods.value,
      batch_size: adviceBatch.value,
      seconds: adviceSeconds.value,
      sweep: this.sweepFile(),
    });
  }

  // Return what is wrong with the typed names of methods, or "" if nothing is.
  /** @param {string} text */
  methodsProblem(text) {
    const unknown = text
      .split(",")
      .map((word) => word.trim())
      .find((word) => word && !this.methods.includes(word));
    return unknown === undefined ? "" : got(`must be names of ${this.methods.join(", ")}`, unknown);
  }

  begun() {
    this.isNew = false;
    this.refs.adviceLesson.hidden = true;
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "progress") this.showProgress(message);
    if (message.kind === "advice") (this.show(message), tab.keep(NAME, message));
    if (message.kind === "end")
      this.run.showState(message.reason === "done" ? "" : this.stoppedWords);
  }

  get stoppedWords() {
    return this.isNew
      ? "stopped: the advice goes by what was measured until then"
      : "stopped before anything was measured";
  }

  /** @param {Reply} message */
  showProgress({ stage, doing, seconds_left: left }) {
    const time = left === null ? "" : ` · at most ${Math.ceil(left)} s left`;
    this.run.showState(
      `${stage === "race" ? "racing the best" : "trying each method"}: ${doing}${time}`,
    );
  }

  /** @param {Reply} advice */
  show(advice) {
    const { refs } = this;
    this.advice = advice;
    this.isNew = true;
    setText(refs.adviceVerdict, advice.verdict);
    setText(refs.adviceSetting, advice.setting);
    refs.adviceReasons.replaceChildren(...advice.reasons.map(reason));
    refs.adviceRanking.replaceChildren(
      headRow(HEADINGS),
      body(bestOfEach(advice.ranking).map(rankedRow)),
    );
    refs.adviceRefusals.replaceChildren(
      ...advice.refusals.map((/** @type {any} */ { title, why }) =>
        element("li", "", `${title}: ${why}`),
      ),
    );
    refs.adviceResult.hidden = false;
    this.onResult();
  }
}

/** @param {{ sentence: string, speaks_for: boolean }} reason */
function reason({ sentence, speaks_for: speaksFor }) {
  const made = element("li", speaksFor ? "for" : "against");
  made.append(element("b", "", speaksFor ? "for" : "against"), " ", sentence);
  return made;
}

// Return the best entry of each method, in the order of the ranking.
/** @param {any[]} ranking */
function bestOfEach(ranking) {
  const best = new Map();
  for (const each of ranking)
    if (!best.has(each.candidate.method)) best.set(each.candidate.method, each);
  return [...best.values()];
}

/** @param {Reply} ranked */
function rankedRow({
  title,
  speedup,
  low,
  high,
  races,
  acceptance_rate: rate,
  tokens_per_round: tokens,
}) {
  const source = races ? `${races} ${races === 1 ? "pass" : "passes"}` : "theory";
  return bodyRow([
    title,
    `${speedup.toFixed(2)}×`,
    `${low.toFixed(2)}–${high.toFixed(2)}`,
    rate.toFixed(2),
    tokens.toFixed(2),
    source,
  ]);
}

/** @param {Reply} kept */
function isAdvice({ reasons, ranking, refusals }) {
  return [reasons, ranking, refusals].every(Array.isArray);
}
