// A widget that compares a few settings. Each setting is raced against plain decoding, on this
// machine or, as a recording, on another. specviz/ui/course/lesson_sweeps.py lists the settings.

import { drawing, element } from "../../shared/dom.js";
import { leftWords } from "../../shared/number_words.js";
import { MeasureRow } from "../measure_row.js";
import { Widget } from "../widget.js";
import {
  childrenOf,
  ends,
  noiseRange,
  noiseWords,
  possibleValues,
  SHOWN,
  settingWords,
  treeMarkup,
} from "./sweep_points.js";

export class MeasuredSweep extends Widget {
  static id = "measured-sweep";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on);
    /** @type {Record<string, string>} */
    this.scene = {};
    /** @type {Map<string, { points: any[], noise: number[], isRecorded: boolean, isWhole: boolean }>} sweep -> its points so far and the noise of the machine */
    this.found = new Map();
    this.head = element("h3", "sweep-title");
    this.bars = element("ol", "sweep-bars");
    this.key = element("p", "hint");
    this.row = new MeasureRow(undefined, {
      measure: () => this.measure(),
      replay: () => this.replay(),
    });
    box.classList.add("measured-sweep");
    box.replaceChildren(this.head, this.bars, this.key, this.row.box);
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.row.setRecorded(this.course.recorded[scene.sweep]);
    this.row.setBusy(false);
    this.row.box.hidden = scene.hidden === "true"; // the learner must first make a prediction
    const { now } = this;
    if (now?.isWhole) this.row.tell(now.isRecorded);
    else this.row.say("");
    if (!now && scene.known === "true") this.replay(); // show the recording, because a link opened the middle of the lesson
    this.draw();
    if (now?.isWhole && scene.hidden !== "true") this.on.reached("shown");
  }

  reveal() {
    this.scene = { ...this.scene, hidden: "false" };
    this.row.box.hidden = false;
    if (!this.now?.isWhole) this.replay();
    this.draw();
    this.on.changed();
  }

  get now() {
    return this.found.get(this.scene.sweep);
  }

  measure() {
    const { sweep } = this.scene;
    this.found.set(sweep, { points: [], noise: [], isRecorded: false, isWhole: false });
    this.row.setBusy(true);
    this.draw();
    this.course.drive.start(
      "sweep",
      { sweep },
      {
        message: (message) => this.take(sweep, message),
        state: (words) => this.row.say(words),
        failed: (text) => (this.row.setBusy(false), this.row.say(text)),
        ended: () => this.end(sweep),
      },
    );
  }

  replay() {
    const { sweep } = this.scene;
    const { recorded } = this.row;
    if (!recorded) return;
    this.found.set(sweep, { points: [], noise: [], isRecorded: true, isWhole: false });
    this.course.drive.replay(recorded, (message) => this.take(sweep, message));
    this.end(sweep);
  }

  /**
   * @param {string} sweep
   * @param {any} message
   */
  take(sweep, { kind, line, noise, done, points, seconds_left: left }) {
    const found = this.found.get(sweep);
    if (found && kind === "noise") found.noise = noise;
    if (kind === "point") (found?.points.push(JSON.parse(line)), this.draw());
    if (kind === "progress" && points)
      this.row.say(`${done} of ${points} settings${leftWords(left)}`);
  }

  /** @param {string} sweep */
  end(sweep) {
    const found = this.found.get(sweep);
    if (!found) return;
    found.isWhole = found.points.length > 0;
    if (sweep !== this.scene.sweep) return;
    this.row.tell(found.isRecorded);
    this.draw();
    this.on.changed();
    if (found.isWhole) this.on.reached("shown");
  }

  halt() {
    this.course.drive.stop();
  }

  get shown() {
    return SHOWN[this.scene.show ?? "speedup"];
  }

  get values() {
    const points = this.now?.points ?? [];
    const words = (/** @type {any} */ point) => settingWords(point.setting, this.course.setup);
    const found = ends(points, this.shown, words);
    const noise = this.now?.noise ?? [];
    const counts = {
      temperature: this.plan?.config.temperature,
      machine: this.now?.isRecorded ? this.row.recorded?.machine : "this machine",
      noise_low: undefined,
      noise_high: undefined,
      ...noiseRange(noise),
    };
    if (points.length) return { ...found, ...counts };
    const [first, last] = [this.planned[0], this.planned.at(-1)];
    return { ...found, ...counts, first: first && words(first), last: last && words(last) };
  }

  get possible() {
    const words = (/** @type {any} */ point) => settingWords(point.setting, this.course.setup);
    return possibleValues(this.now?.points ?? [], this.shown, words, this.now?.noise ?? []);
  }

  draw() {
    const { now, scene, shown } = this;
    const isHidden = scene.hidden === "true";
    const points = now?.points ?? [];
    const listed = points.length ? points : this.planned;
    const numbers = isHidden ? [] : points.map(shown.of);
    const most = Math.max(
      1.2,
      ...numbers,
      ...(shown.hasOne && !isHidden ? points.flatMap(({ speedup_spread: spread }) => spread) : []),
    );
    this.head.textContent = shown.title;
    this.bars.replaceChildren(...listed.map((point, at) => this.bar(point, numbers[at], most)));
    const hasLine = shown.hasOne && numbers.length > 0;
    this.bars.classList.toggle("has-one", hasLine);
    this.bars.style.setProperty("--one", String(1 / most));
    this.key.textContent = hasLine
      ? `The line is plain decoding: left of it speculation is slower. ${noiseWords(now?.noise ?? [])}`
      : "";
  }

  // The plan of the recorded sweep, with what all its settings have in common, or undefined if
  // there is no recording.
  get plan() {
    const found = (this.row.recorded?.messages ?? []).find(({ kind }) => kind === "plan");
    return found && JSON.parse(found.line);
  }

  // The points of the recording. Their settings are known before the sweep is measured.
  get planned() {
    const lines = (this.row.recorded?.messages ?? []).filter(({ kind }) => kind === "point");
    return lines.map(({ line }) => JSON.parse(line));
  }

  /**
   * @param {any} point
   * @param {number | undefined} number
   * @param {number} most
   */
  bar(point, number, most) {
    const { shown, course } = this;
    const row = element("li", shown.hasOne && number !== undefined && number < 1 ? "is-loss" : "");
    const track = element("span", "sweep-track");
    const bar = element("i");
    bar.style.width = number === undefined ? "0" : `${(100 * number) / most}%`;
    track.append(bar);
    if (shown.hasOne && number !== undefined && point.speedups.length > 1)
      track.append(spreadMark(point.speedup_spread, most));
    const name = element("span", "sweep-name", settingWords(point.setting, course.setup));
    if (point.setting.tree) name.append(drawing(treeMarkup(childrenOf(point.setting.tree))));
    row.append(
      name,
      track,
      element("span", "number", number === undefined ? "?" : shown.written(number)),
      element(
        "span",
        "hint sweep-note",
        number === undefined ? this.introduction(point) : shown.note(point),
      ),
    );
    return row;
  }

  // Return the description of a drafting method, which is shown until the method was measured.
  /** @param {any} point */
  introduction({ setting }) {
    return this.course.setup.methods.find(({ name }) => name === setting.method)?.summary ?? "";
  }
}

// Return a bar for a chart that spans from the slowest to the fastest repeat of a setting.
/**
 * @param {[number, number]} spread
 * @param {number} most
 */
function spreadMark([low, high], most) {
  const made = element("span", "sweep-spread");
  made.style.left = `${(100 * low) / most}%`;
  made.style.width = `${(100 * (high - low)) / most}%`;
  return made;
}
