// Forwards of one token and of many, measured on this machine: bars by their number of tokens.

import { element, setText } from "../../shared/dom.js";
import { Widget } from "../widget.js";
import { ForwardTimes } from "./forward_times.js";

const MANY = 6; // tokens of the forward that is set beside one of a single token
const GIGA = 1e9;

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
    /** @type {Record<string, string>} */
    this.scene = {};
    this.chosen = 0; // place among the counts
    const pair = course.setup.settings.find(({ name }) => name === "pair")?.default;
    this.pair = course.setup.pairs.find(({ name }) => name === pair);
    this.go = element("button", "primary", "Measure it here");
    this.go.type = "button";
    this.go.addEventListener("click", () => this.measure());
    this.state = element("p", "hint");
    this.state.setAttribute("role", "status");
    this.bars = element("ol", "forward-bars");
    this.bars.setAttribute("aria-label", "Time of a forward by its number of tokens");
    this.slider = element("input");
    this.slider.type = "range";
    this.slider.min = "0";
    this.slider.setAttribute("aria-label", "Tokens of the forward");
    this.slider.addEventListener("input", () => this.choose(Number(this.slider.value)));
    this.words = element("p", "forward-words");
    const top = element("p", "row tight forward-go");
    top.append(this.go, this.state);
    box.classList.add("one-forward");
    box.replaceChildren(top, this.bars, this.slider, this.words);
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.chosen = 0;
    this.draw();
    if (this.times.isWhole) this.on.reached("measured");
    else if (scene.measured === "true") this.measure(); // a link leads into the middle of the lesson
  }

  measure() {
    this.times = new ForwardTimes();
    this.go.disabled = true;
    const failed = (/** @type {string} */ text) => {
      this.go.disabled = false;
      setText(this.state, text);
    };
    this.course.drive.start("forwards", { form: { pair: this.pair?.name } }, {
      message: (message) => this.take(message),
      state: (words) => setText(this.state, words),
      failed,
      ended: () => failed(""),
    });
  }

  /** @param {any} message */
  take(message) {
    this.times.take(message);
    setText(this.state, `pass ${this.times.passes.length} of ${this.times.wanted}`);
    this.draw();
    if (this.times.isWhole) this.on.reached("measured");
    this.on.changed();
  }

  /** @param {number} at */
  choose(at) {
    this.chosen = at;
    this.draw();
    if (at === this.times.counts.length - 1) this.on.reached("largest");
    this.on.changed();
  }

  halt() {
    this.course.drive.stop();
  }

  // ---- values

  get values() {
    const { times, pair } = this;
    const { model, largest = 0 } = times;
    const giga = (/** @type {number | undefined} */ each) => (each === undefined ? undefined : each / GIGA);
    const count = times.counts[this.chosen] ?? 1;
    return {
      model: pair?.title, many: MANY, one_time: times.seconds(1), many_time: times.seconds(MANY), ratio: times.ratio(MANY),
      parameters: model ? model.parameters / 1e6 : undefined, weights: model ? times.weightBytes / 1e6 : undefined,
      bandwidth: giga(times.bytesPerSecond), one_rate: giga(times.operationsPerSecond(1)), many_rate: giga(times.operationsPerSecond(MANY)),
      largest: largest || undefined, largest_time: times.seconds(largest), largest_ratio: times.ratio(largest),
      count, count_time: times.seconds(count), count_ratio: times.ratio(count),
    };
  }

  // ---- drawing

  draw() {
    const { times, scene } = this;
    const shown = scene.show === "all" ? times.counts : times.counts.filter((count) => count === 1 || count === MANY);
    const most = Math.max(...shown.map((count) => times.seconds(count) ?? 0));
    this.bars.replaceChildren(...(shown.length ? shown : [1, MANY]).map((count) => this.bar(count, most)));
    this.slider.hidden = this.words.hidden = scene.show !== "all" || !times.isWhole;
    this.slider.max = String(Math.max(0, times.counts.length - 1));
    this.slider.value = String(this.chosen);
    const { count, count_time: seconds, count_ratio: ratio } = this.values;
    if (seconds === undefined || ratio === undefined) return;
    const alone = count === 1 ? "" : `, ${ratio.toFixed(2)} times that of one; one after the other they would take ${count} times as long as one`;
    setText(this.words, `${count} ${count === 1 ? "token" : "tokens"} in one forward: ${(1000 * seconds).toPrecision(3)} ms${alone}.`);
  }

  /**
   * @param {number} count
   * @param {number} most
   */
  bar(count, most) {
    const seconds = this.times.seconds(count);
    const row = element("li", this.scene.show === "all" && count === this.times.counts[this.chosen] ? "is-chosen" : "");
    const track = element("span", "forward-track");
    const bar = element("i");
    bar.style.width = seconds === undefined || !most ? "0" : `${(100 * seconds) / most}%`;
    track.append(bar);
    row.append(
      element("span", "forward-count", `${count} ${count === 1 ? "token" : "tokens"}`), track,
      element("span", "number", seconds === undefined ? "?" : `${(1000 * seconds).toPrecision(3)} ms`),
    );
    return row;
  }
}
