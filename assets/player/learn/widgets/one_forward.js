// A widget that compares forwards with one and with many tokens, measured on this machine or
// recorded on another. It shows a bar for each number of tokens, and the roofline that fits the
// measured times. The server fits the roofline (specviz/theory.py).

import { Chart } from "../../shared/charts.js";
import { element, setText } from "../../shared/dom.js";
import { written } from "../lesson_text.js";
import { MeasureRow } from "../measure_row.js";
import { Widget } from "../widget.js";
import { ForwardTimes } from "./forward_times.js";

const MANY = 6; // tokens of the forward that is compared with a forward of one token
const GIGA = 1e9;
const RECORDING = "forwards";
const FURTHER = 4; // the slider's largest number of tokens, divided by the largest measured one
const STEPS_PER_DOUBLING = 2; // steps of the slider for each doubling of the number of tokens

export class OneForward extends Widget {
  static id = "one-forward";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on);
    this.times = new ForwardTimes();
    this.isRecorded = false;
    /** @type {any} the server's fit of these times */
    this.roof = null;
    this.asked = 0;
    /** @type {Record<string, string>} */
    this.scene = {};
    // True after the learner has answered the question "What takes the time?".
    this.isExplained = false;
    this.count = 1; // number of tokens that the slider selects
    const pair = course.setup.settings.find(({ name }) => name === "pair")?.default;
    this.pair = course.setup.pairs.find(({ name }) => name === pair);
    this.row = new MeasureRow(course.recorded[RECORDING], { measure: () => this.measure(), replay: () => this.replay() });
    this.bars = element("ol", "forward-bars");
    this.bars.setAttribute("aria-label", "Time of a forward by its number of tokens");
    this.picture = element("div", "chart-card");
    const place = element("div", "chart");
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", "Time of a forward by its tokens: measured, and the fitted roofline");
    this.picture.append(element("h3", "", "Time of a forward"), place);
    this.slider = element("input");
    this.slider.type = "range";
    this.slider.min = "0";
    this.slider.setAttribute("aria-label", "Tokens of the forward");
    this.slider.addEventListener("input", () => this.choose(this.countAt(Number(this.slider.value))));
    this.words = element("p", "forward-words");
    this.words.setAttribute("aria-live", "polite");
    box.classList.add("one-forward");
    box.replaceChildren(this.row.box, this.bars, this.picture, this.slider, this.words);
    this.chart = new Chart(place, course.theme);
  }

  /** @param {Record<string, string>} scene */
  async set(scene) {
    this.scene = scene;
    this.count = 1;
    this.isExplained = false;
    if (scene.show === "ask") {
      this.row.box.hidden = true; // the learner must first make a prediction
      this.draw(true);
      return;
    }
    this.row.box.hidden = false;
    // If the learner opened the lesson in the middle by a link, nothing is measured yet. A step
    // that needs measured times then shows the recording.
    if (!this.times.isWhole && scene.measured === "true") this.replay();
    if (this.times.isWhole) await this.fit();
    this.draw();
    if (this.times.isWhole) this.on.reached("measured");
  }

  reveal() {
    this.isExplained = true;
    this.draw();
  }

  measure() {
    this.begin(false);
    this.row.setBusy(true);
    this.course.drive.start("forwards", { form: { pair: this.pair?.name } }, {
      message: (message) => this.take(message),
      state: (words) => this.row.say(words),
      failed: (text) => (this.row.setBusy(false), this.row.say(text)),
      ended: () => this.end(),
    });
  }

  replay() {
    const { recorded } = this.row;
    if (!recorded) return;
    this.begin(true);
    this.course.drive.replay(recorded, (message) => this.times.take(message));
    this.end();
  }

  /** @param {boolean} isRecorded */
  begin(isRecorded) {
    this.times = new ForwardTimes();
    this.roof = null;
    this.isRecorded = isRecorded;
  }

  /** @param {any} message */
  take(message) {
    this.times.take(message);
    this.row.say(`pass ${this.times.passes.length} of ${this.times.wanted}`);
    this.draw();
    this.on.changed();
  }

  async end() {
    this.row.tell(this.isRecorded);
    await this.fit();
    if (this.times.isWhole) this.on.reached("measured");
  }

  // Ask the server to fit the two parameters of the roofline to the measurements: the time to read
  // the memory, and the arithmetic time per token. Only the answer to the latest question is used.
  async fit() {
    if (!this.times.isWhole) return;
    const number = (this.asked += 1);
    const { counts } = this.times;
    const seconds = counts.map((count) => this.times.seconds(count));
    const answer = await this.course.drive.ask("roofline", { counts, seconds, chosen: this.count });
    if (number !== this.asked) return;
    if (!answer || answer.error) return this.row.say(answer?.error ?? "The server cannot be reached.");
    this.roof = answer;
    this.draw();
    this.on.changed();
  }

  // Each step of the slider multiplies the number of tokens by the same factor.

  get mostSteps() {
    return STEPS_PER_DOUBLING * Math.log2(FURTHER * (this.times.largest ?? 1));
  }

  /** @param {number} step */
  countAt(step) {
    return Math.round(2 ** (step / STEPS_PER_DOUBLING));
  }

  /** @param {number} count */
  async choose(count) {
    this.count = count;
    await this.fit();
    if (this.roof && count >= this.roof.ridge && count > 1) this.on.reached("binds");
  }

  halt() {
    this.course.drive.stop();
  }

  repaint() {
    if (this.roof) this.chart.draw(this.roof.figure);
  }

  get values() {
    const { times, pair, roof, count } = this;
    const { model, largest = 0 } = times;
    const giga = (/** @type {number | undefined} */ each) => (each === undefined ? undefined : each / GIGA);
    return {
      model: model?.name ?? pair?.title, many: MANY, machine: this.isRecorded ? this.row.recorded?.machine : "this machine",
      one_time: times.seconds(1), many_time: times.seconds(MANY), ratio: times.ratio(MANY),
      parameters: model ? model.parameters / 1e6 : undefined, weights: model ? times.weightBytes / 1e6 : undefined, weight_bytes: model ? times.weightBytes / model.parameters : undefined,
      bandwidth: gigabytes(times.bytesPerSecond(1)), one_rate: giga(times.operationsPerSecond(1)), many_rate: giga(times.operationsPerSecond(MANY)),
      largest: largest || undefined, largest_time: times.seconds(largest), largest_ratio: times.ratio(largest),
      read_time: roof?.read_seconds, token_time: roof?.token_seconds, ridge: roof?.ridge,
      count, count_time: roof?.chosen_seconds, alone_time: roof ? count * roof.read_seconds : undefined,
    };
  }

  draw(isHidden = false) {
    const { times, scene, roof } = this;
    const isRoof = scene.show === "roof" && roof !== null;
    const shown = scene.show === "all" && times.counts.length ? times.counts : [1, MANY];
    const most = Math.max(...shown.map((count) => times.seconds(count) ?? 0));
    this.bars.hidden = isRoof;
    this.bars.replaceChildren(...shown.map((count) => this.bar(count, isHidden ? 0 : most)));
    this.picture.hidden = this.slider.hidden = !isRoof;
    setText(this.words, isRoof ? this.sentence(roof) : times.whyQuicker(MANY, this.isExplained));
    if (!isRoof) return;
    this.slider.max = String(this.mostSteps);
    this.slider.value = String(STEPS_PER_DOUBLING * Math.log2(this.count));
    this.slider.setAttribute("aria-valuetext", `${this.count} tokens`);
    this.chart.draw(roof.figure);
  }

  /** @param {any} roof */
  sentence({ ridge, read_seconds: read, token_seconds: each, chosen_seconds: time }) {
    const { count } = this;
    const binds = count < ridge ? "reading takes longer" : "arithmetic takes longer";
    return `${count} ${count === 1 ? "token" : "tokens"}: ${milliseconds(time)} by the line. Reading takes ${milliseconds(read)}, arithmetic ${count} × ${milliseconds(each)} = ${milliseconds(count * each)}, so ${binds}.`;
  }

  /**
   * @param {number} count
   * @param {number} most seconds of the longest bar; 0 shows no times
   */
  bar(count, most) {
    const seconds = most ? this.times.seconds(count) : undefined;
    const row = element("li");
    const track = element("span", "forward-track");
    const bar = element("i");
    bar.style.width = seconds === undefined || !most ? "0" : `${(100 * seconds) / most}%`;
    track.append(bar);
    row.append(
      element("span", "forward-count", `${count} ${count === 1 ? "token" : "tokens"}`), track,
      element("span", "number", seconds === undefined ? "?" : milliseconds(seconds)),
    );
    return row;
  }
}

/** @param {number | undefined} each bytes per second */
function gigabytes(each) {
  return each === undefined ? undefined : `${(each / GIGA).toFixed(1)} GB/s`;
}

/** @param {number} seconds */
function milliseconds(seconds) {
  return written(seconds, "milliseconds");
}
