// A widget that compares forwards with one and with many tokens, measured on this machine or
// recorded on another. It shows a bar for each number of tokens, and the line that fits the measured
// times. The server fits the line (specviz/theory.py).

import { Chart } from "../../shared/charts.js";
import { element, setText } from "../../shared/dom.js";
import { written } from "../lesson_text.js";
import { MeasureRow } from "../measure_row.js";
import { Widget } from "../widget.js";
import { ForwardTimes } from "./forward_times.js";

const MANY = 6; // tokens of the forward that is compared with a forward of one token
const GIGA = 1e9;
const RECORDING = "forwards";
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
    this.line = null;
    this.asked = 0;
    /** @type {Record<string, string>} */
    this.scene = {};
    // True after the learner has answered the question "What takes the time?".
    this.isExplained = false;
    this.count = 1; // number of tokens that the slider selects
    const pair = course.setup.settings.find(({ name }) => name === "pair")?.default;
    this.pair = course.setup.pairs.find(({ name }) => name === pair);
    this.row = new MeasureRow(course.recorded[RECORDING], {
      measure: () => this.measure(),
      replay: () => this.replay(),
    });
    this.bars = element("ol", "forward-bars");
    this.bars.setAttribute("aria-label", "Time of a forward by its number of tokens");
    this.picture = element("div", "chart-card");
    const place = element("div", "chart");
    place.setAttribute("role", "img");
    place.setAttribute(
      "aria-label",
      "Time of a forward by its tokens: measured, and the fitted line",
    );
    this.picture.append(element("h3", "", "Time of a forward"), place);
    this.slider = element("input");
    this.slider.type = "range";
    this.slider.min = "0";
    this.slider.setAttribute("aria-label", "Tokens of the forward");
    this.slider.addEventListener("input", () =>
      this.choose(this.countAt(Number(this.slider.value))),
    );
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
    if (scene.show.startsWith("ask")) {
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
    this.course.drive.start(
      "forwards",
      { form: { pair: this.pair?.name } },
      {
        message: (message) => this.take(message),
        state: (words) => this.row.say(words),
        failed: (text) => (this.row.setBusy(false), this.row.say(text)),
        ended: () => this.end(),
      },
    );
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
    this.line = null;
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

  // Ask the server to fit a line to the measurements: the time to read the weights, and the time of
  // the arithmetic of one token. Only the answer to the latest question is used.
  async fit() {
    if (!this.times.isWhole) return;
    const number = (this.asked += 1);
    const { counts } = this.times;
    const seconds = counts.map((count) => this.times.seconds(count));
    const answer = await this.course.drive.ask("forward_line", {
      counts,
      seconds,
      chosen: this.count,
    });
    if (number !== this.asked) return;
    if (!answer || answer.error)
      return this.row.say(answer?.error ?? "The server cannot be reached.");
    this.line = answer;
    this.draw();
    this.on.changed();
  }

  // Each step of the slider multiplies the number of tokens by the same factor.

  get mostSteps() {
    return Math.ceil(STEPS_PER_DOUBLING * Math.log2(this.line?.limit ?? 1));
  }

  /** @param {number} step */
  countAt(step) {
    return Math.round(2 ** (step / STEPS_PER_DOUBLING));
  }

  /** @param {number} count */
  async choose(count) {
    this.count = count;
    await this.fit();
    if (this.line && count > 1 && count >= Math.min(this.line.ridge ?? Infinity, this.line.limit))
      this.on.reached("binds");
  }

  // The numbers of tokens that are measured, as the recording has them until they are measured here.
  /** @returns {number[]} */
  get counts() {
    const [first] = this.row.recorded?.messages ?? [];
    return this.times.counts.length ? this.times.counts : (first?.counts ?? [1, MANY]);
  }

  get largest() {
    return this.counts.at(-1);
  }

  get possible() {
    return Object.fromEntries(
      [
        ["ratio", MANY],
        ["largest_ratio", this.largest ?? 1],
      ].flatMap(([name, count]) => {
        const range = this.times.ratioRange(Number(count));
        return range
          ? [
              [
                name,
                {
                  values: range,
                  words: `In half of the passes, ${count} tokens took between ${written(range[0], "times")} and ${written(range[1], "times")} the time of one.`,
                },
              ],
            ]
          : [];
      }),
    );
  }

  halt() {
    this.course.drive.stop();
  }

  repaint() {
    if (this.line) this.chart.draw(this.line.figure);
  }

  get values() {
    const { times, pair, line, count } = this;
    const { model } = times;
    const { largest } = this;
    const giga = (/** @type {number | undefined} */ each) =>
      each === undefined ? undefined : each / GIGA;
    return {
      model: model?.name ?? pair?.title,
      many: MANY,
      machine: this.isRecorded ? this.row.recorded?.machine : "this machine",
      one_time: times.seconds(1),
      many_time: times.seconds(MANY),
      ratio: times.ratio(MANY),
      parameters: model ? model.parameters / 1e6 : undefined,
      weights: model ? times.weightBytes / 1e6 : undefined,
      weight_bytes: model ? times.weightBytes / model.parameters : undefined,
      bandwidth: gigabytes(times.bytesPerSecond(1)),
      one_rate: giga(times.operationsPerSecond(1)),
      many_rate: giga(times.operationsPerSecond(MANY)),
      largest,
      largest_time: times.seconds(largest ?? 0),
      largest_ratio: times.ratio(largest ?? 0),
      read_time: line?.read_seconds,
      token_time: line?.token_seconds,
      ridge: line?.ridge ?? undefined,
      count,
      count_time: line?.chosen_seconds,
    };
  }

  draw(isHidden = false) {
    const { times, scene, line } = this;
    const isLine = scene.show === "line" && line !== null;
    const shown = scene.show === "all" || scene.show === "ask-all" ? this.counts : [1, MANY];
    const most = Math.max(...shown.map((count) => times.seconds(count) ?? 0));
    this.bars.hidden = isLine;
    this.bars.replaceChildren(...shown.map((count) => this.bar(count, isHidden ? 0 : most)));
    this.picture.hidden = this.slider.hidden = !isLine;
    setText(this.words, isLine ? this.sentence(line) : times.whyQuicker(MANY, this.isExplained));
    if (!isLine) return;
    this.slider.max = String(this.mostSteps);
    this.slider.value = String(STEPS_PER_DOUBLING * Math.log2(this.count));
    this.slider.setAttribute("aria-valuetext", `${this.count} tokens`);
    this.chart.draw(line.figure);
  }

  /** @param {any} line */
  sentence({ read_seconds: read, token_seconds: each, chosen_seconds: time }) {
    const { count, largest } = this;
    const longer = count * each > read ? "Arithmetic" : "Reading";
    const beyond =
      count > (largest ?? Infinity)
        ? ` Nothing was measured beyond ${largest} tokens: the dashed line assumes that nothing changes there.`
        : "";
    return `${count} ${count === 1 ? "token" : "tokens"}: ${milliseconds(read)} for reading and ${count} × ${milliseconds(each)} = ${milliseconds(count * each)} for arithmetic, ${milliseconds(time)} in all by the line. ${longer} takes longer.${beyond}`;
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
      element("span", "forward-count", `${count} ${count === 1 ? "token" : "tokens"}`),
      track,
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
