// The card that compares the decoding methods of the transformers library with ours, as pairs of
// bars. A pair appears as soon as it is measured.

import { element, setText } from "../shared/dom.js";
import { FieldErrors } from "../shared/field_errors.js";
import { LabRun } from "./lab_run.js";
import { leftWords } from "../shared/number_words.js";
import { problemOf, settingOf } from "../shared/settings.js";

export class PeersCard {
  // `setting()` returns the form with the models and prompts. `onResult()` is called when there is
  // a result.
  /**
   * @param {Refs} refs
   * @param {GradioLink} gradio
   * @param {{ setting: () => SettingForm, onResult: () => void }} on
   */
  constructor(refs, gradio, { setting, onResult }) {
    this.refs = refs;
    this.setting = setting;
    this.onResult = onResult;
    this.errors = new FieldErrors(
      refs.peersError.closest("section"),
      { draft_length: refs.peersLength },
      () => [
        {
          name: "draft_length",
          control: refs.peersLength,
          problem: (text) => problemOf(settingOf("draft_length"), text),
        },
      ],
    );
    this.run = new LabRun(
      { go: refs.peersGo, stop: refs.peersStop, state: refs.peersState },
      gradio,
      {
        begun: () => this.begun(),
        message: (message) => this.take(message),
        failed: (text) => this.setting().show(text) || this.errors.report(text),
      },
    );
    refs.peersGo.addEventListener("click", () => this.start());
    refs.peersLength.addEventListener(
      "keydown",
      (/** @type {any} */ event) => event.key === "Enter" && this.start(),
    );
  }

  start() {
    this.setting().clearErrors();
    if (this.errors.refuses() || this.setting().refuses()) return;
    this.run.start("peers", { ...this.setting().order, draft_length: this.refs.peersLength.value });
  }

  begun() {
    this.isNew = false;
    this.refs.peersLesson.hidden = true;
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "progress") this.showProgress(message);
    if (message.kind === "peers" && message.pairs.length) this.show(message);
    if (message.kind === "end")
      this.run.showState(message.reason === "done" ? "" : this.stoppedWords);
  }

  get stoppedWords() {
    return this.isNew
      ? "stopped: the table shows what was measured until then"
      : "stopped before anything was measured";
  }

  /** @param {Reply} message */
  showProgress({ doing, repeat, repeats, seconds_left: left }) {
    const where = repeat === null ? "warming up" : `pass ${repeat} of ${repeats}`;
    this.run.showState(`${where}: ${doing}${leftWords(left)}`);
  }

  /** @param {Reply} message */
  show({ pairs, setting }) {
    this.isNew = true;
    this.onResult();
    setText(this.refs.peersSetting, setting);
    const rates = pairs
      .flatMap((/** @type {any} */ { ours, theirs }) => [ours, theirs])
      .map((/** @type {any} */ side) => side?.tokens_per_second ?? 0);
    const most = Math.max(...rates);
    this.refs.peersResult.replaceChildren(
      ...pairs.map((/** @type {any} */ pair) => pairRow(pair, most)),
    );
  }
}

/**
 * @param {Reply} pair
 * @param {number} most
 */
function pairRow({ title, call, ours, theirs, ratio }, most) {
  const row = element("section", "peer");
  const head = element("h3", "", title);
  if (ratio !== null)
    head.append(
      " ",
      element("b", "", `${ratio.toFixed(2)}×`),
      element("span", "hint", " ours over the library’s"),
    );
  row.append(head, bar("this app", ours, most, "ours"), bar(call, theirs, most, "theirs"));
  return row;
}

/**
 * @param {string} name
 * @param {any} row
 * @param {number} most
 * @param {string} className
 */
function bar(name, row, most, className) {
  const made = element("div", `peer-bar ${className}`);
  const track = element("i");
  track.style.setProperty(
    "--share",
    `${((100 * (row?.tokens_per_second ?? 0)) / most).toFixed(1)}%`,
  );
  const words = element("span", "", row ? `${row.tokens_per_second.toFixed(1)} tok/s` : "–");
  made.append(
    element("span", "peer-name", name),
    track,
    words,
    element("span", "hint", row ? facts(row) : "not measured yet"),
  );
  return made;
}

/** @param {Reply} row */
function facts({
  speedup,
  speedup_spread: [low, high],
  acceptance_rate: rate,
  block_efficiency: tau,
}) {
  const parts = [`${speedup.toFixed(2)}× our baseline (${low.toFixed(2)}–${high.toFixed(2)})`];
  if (rate !== null) parts.push(`acceptance rate α ${rate.toFixed(2)}`);
  if (tau !== null) parts.push(`tokens per forward τ ${tau.toFixed(2)}`);
  return parts.join(" · ");
}
