// A widget about the number of tokens to draft. Acceptance, draft length and cost are sliders, and
// a chart shows the speedup by theory together with a sweep that was measured here or recorded. The
// server computes the theory (specviz/theory.py).

import { Chart } from "../../shared/charts.js";
import { element, setText } from "../../shared/dom.js";
import { leftWords } from "../../shared/number_words.js";
import { MeasureRow } from "../measure_row.js";
import { Widget } from "../widget.js";
import { byDepth } from "./sweep_points.js";

const GONE = 0.05; // acceptance of a draft's last token below which its bar is hardly visible
const SWEEP = "lengths"; // name of the sweep in specviz/ui/course/lesson_sweeps.py
/** @type {[string, string, number, number, number][]} name, label, lowest value, highest value, step */
const SLIDERS = [
  ["a", "α, how often a guess passes", 0, 1, 0.05],
  ["K", "K, guesses ahead", 1, 16, 1],
  ["c", "c, cost of a guess: this share of a look", 0, 1, 0.05],
];

export class DraftLength extends Widget {
  static id = "draft-length";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on);
    /** @type {Record<string, number>} */
    this.at = { a: 0.8, K: 5, c: 0, v: 0 };
    /** @type {any} the result of the theory */
    this.answer = null;
    /** @type {any[]} points of the sweep */
    this.points = [];
    this.asked = 0;
    this.isMoved = false; // true if the learner has moved a slider in this step
    this.isSwept = false;
    this.isOver = false;
    this.isRecorded = false;
    this.sliders = SLIDERS.map((each) => this.slider(each));
    const picture = (this.picture = element("div", "chart-card"));
    const title = element("h3", "", "Speedup by draft length");
    this.source = element("p", "hint");
    const place = element("div", "chart");
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", "Speedup by draft length: theory, and what was measured");
    picture.append(title, place, this.source);
    this.words = element("p", "length-words");
    this.words.setAttribute("aria-live", "polite");
    this.sum = element("section", "length-depths");
    this.depths = element("section", "length-depths");
    this.row = new MeasureRow(course.recorded[SWEEP], {
      measure: () => this.measure(),
      replay: () => this.replay(),
    });
    box.classList.add("draft-length");
    box.replaceChildren(
      ...this.sliders.map(({ label }) => label),
      this.words,
      picture,
      this.sum,
      this.depths,
      this.row.box,
    );
    this.chart = new Chart(place, course.theme);
  }

  /** @param {[string, string, number, number, number]} of */
  slider([name, words, low, high, step]) {
    const label = element("label", "length-slider");
    const input = element("input");
    input.type = "range";
    [input.min, input.max, input.step] = [low, high, step].map(String);
    input.dataset.name = name;
    const number = element("span", "number");
    input.addEventListener("input", () => this.move(name, Number(input.value)));
    label.append(element("span", "", words), input, number);
    return { name, label, input, number };
  }

  /** @param {Record<string, string>} scene */
  async set(scene) {
    this.at = {
      ...this.at,
      ...Object.fromEntries(
        ["a", "K", "c"].filter((name) => scene[name]).map((name) => [name, Number(scene[name])]),
      ),
      v: 0,
    };
    for (const { input } of this.sliders) input.disabled = scene.fixed === "true";
    this.isMoved = false;
    this.picture.hidden = this.words.hidden = scene.hidden === "true" || scene.bars === "true";
    this.sum.hidden = scene.bars !== "true";
    // A later step introduces the cost, so its slider is still hidden.
    for (const { name, label } of this.sliders)
      label.hidden = name === "c" && scene.bars === "true";
    this.row.box.hidden = scene.sweep !== "true";
    this.isOver = scene.sweep === "true"; // true if the chart also shows the measurements
    setText(
      this.source,
      this.isOver
        ? "The line is theory, the dots are measured."
        : "Computed from these sliders by theory; nothing here was measured.",
    );
    this.drawDepths();
    if (this.isOver && this.isSwept) await this.swept();
    else await this.ask();
  }

  reveal() {
    this.picture.hidden = this.words.hidden = false;
    this.repaint();
  }

  /**
   * @param {string} name
   * @param {number} value
   */
  move(name, value) {
    this.at = { ...this.at, [name]: value };
    this.isMoved = true;
    this.ask();
  }

  // Ask the server for the theory. Only the answer to the latest question is used.
  async ask() {
    const number = (this.asked += 1);
    this.drawSliders();
    const measured = (this.isOver ? this.points : []).map(({ setting, speedup }) => [
      setting["draft-length"],
      speedup,
    ]);
    const answer = await this.course.drive.ask("theory", { ...this.at, measured });
    if (number !== this.asked) return;
    if (!answer || answer.error)
      return this.row.say(answer?.error ?? "The server cannot be reached.");
    this.answer = answer;
    this.chart.draw(answer.figure);
    this.drawWords();
    this.drawSum();
    if (this.isMoved && this.at.a ** this.at.K < GONE) this.on.reached("last-gone");
    if (this.isMoved && Number(answer.speedup.toFixed(2)) < 1) this.on.reached("loses");
    if (this.isMoved && this.at.K === answer.best) this.on.reached("at-best");
    this.on.changed();
  }

  measure() {
    this.begin(false);
    this.row.setBusy(true);
    this.course.drive.start(
      "sweep",
      { sweep: SWEEP },
      {
        message: (message) => this.take(message),
        state: (words) => this.row.say(words),
        failed: (text) => (this.row.setBusy(false), this.row.say(text)),
        ended: () => this.swept(),
      },
    );
  }

  replay() {
    const { recorded } = this.row;
    if (!recorded) return;
    this.begin(true);
    this.course.drive.replay(recorded, (message) => this.take(message));
    this.swept();
  }

  /** @param {boolean} isRecorded */
  begin(isRecorded) {
    this.points = [];
    this.isSwept = false;
    this.isRecorded = isRecorded;
  }

  /** @param {any} message */
  take({ kind, line, done, points, seconds_left: left }) {
    if (kind === "point") (this.points.push(JSON.parse(line)), this.ask());
    if (kind === "progress" && points)
      this.row.say(`${done} of ${points} draft lengths${leftWords(left)}`);
  }

  // Compute the theory for the measured acceptance and cost, so that the learner can compare theory
  // and measurement.
  async swept() {
    this.row.tell(this.isRecorded);
    this.drawDepths();
    const { a, c } = this.measured;
    if (a === undefined || c === undefined) return;
    const overheads = this.points.map((each) => each.verify_overhead ?? 0);
    this.at = { ...this.at, a, c, v: mean(overheads) };
    await this.ask();
    this.isSwept = true;
    this.on.reached("swept");
  }

  halt() {
    this.course.drive.stop();
  }

  repaint() {
    if (this.answer) this.chart.draw(this.answer.figure);
  }

  // The measured values: the share of examined tokens that were accepted, the mean cost ratio (the
  // time of a draft forward divided by that of a target forward), and the point of the sweep with
  // the largest speedup.
  get measured() {
    const known = this.points.filter((each) => each.acceptance_rate !== null);
    if (!known.length) return {};
    const best = this.points.reduce((one, other) => (other.speedup > one.speedup ? other : one));
    const depths = byDepth(known);
    const [passed, reached] = [
      total(depths.map((each) => each.passed)),
      total(depths.map((each) => each.reached)),
    ];
    return { a: passed / reached, c: mean(known.map((each) => each.cost_ratio ?? 0)), best };
  }

  get values() {
    const { at, answer, measured } = this;
    return {
      a: at.a,
      K: at.K,
      c: at.c,
      tokens: answer?.tokens,
      accepted: answer?.accepted,
      naive: answer?.naive,
      naive_times: answer?.naive,
      speedup: answer?.speedup,
      best: answer?.best,
      best_speedup: answer?.best_speedup,
      measured_a: measured.a,
      measured_c: measured.c,
      measured_best: measured.best?.setting["draft-length"],
      measured_speedup: measured.best?.speedup,
    };
  }

  drawSliders() {
    for (const { name, input, number } of this.sliders) {
      input.value = String(this.at[name]);
      setText(number, name === "K" ? String(this.at[name]) : this.at[name].toFixed(2));
    }
  }

  // Draw how many tokens each drafted token adds to a round on average. A drafted token is added
  // only if it and all drafted tokens before it are accepted.
  drawSum() {
    const { a, K } = this.at;
    const bars = element("ol", "sweep-bars");
    const guesses = Array.from({ length: K }, (_, at) =>
      shareBar(
        `guess ${at + 1}`,
        a ** (at + 1),
        `α${exponent(at + 1)} = ${(a ** (at + 1)).toFixed(2)}`,
      ),
    );
    bars.append(shareBar("target", 1, "1"), ...guesses);
    this.sum.replaceChildren(
      element("h3", "sweep-title", "What each token adds to a look, on average"),
      bars,
      element("p", "hint", `Together ${this.answer.tokens.toFixed(2)} tokens a look.`),
    );
  }

  // Draw how often a token was accepted at each depth, next to the single α that the theory uses
  // for all depths.
  drawDepths() {
    const { a } = this.measured;
    this.depths.hidden = !this.isOver || a === undefined;
    if (a === undefined) return;
    const bars = element("ol", "sweep-bars has-one");
    bars.style.setProperty("--one", String(a));
    bars.append(
      ...byDepth(this.points).map(({ depth, reached, passed }) =>
        shareBar(`guess ${depth}`, passed / reached, `${passed} of ${reached}`),
      ),
    );
    this.depths.replaceChildren(
      element("h3", "sweep-title", "Examined guesses that passed, by depth"),
      bars,
      element(
        "p",
        "hint",
        `The line is α = ${a.toFixed(2)}, all of them together, which theory takes for every depth. The runs of every K are counted: with K = 1 there is no guess 2.`,
      ),
    );
  }

  drawWords() {
    const { tokens, speedup } = this.answer;
    setText(
      this.words,
      `${tokens.toFixed(2)} tokens a look; ${speedup.toFixed(2)} times as fast as without a draft.`,
    );
  }
}

/**
 * @param {string} name
 * @param {number} share
 * @param {string} number
 */
function shareBar(name, share, number) {
  const row = element("li");
  const track = element("span", "sweep-track");
  const bar = element("i");
  bar.style.width = `${100 * share}%`;
  track.append(bar);
  row.append(element("span", "sweep-name", name), track, element("span", "number", number));
  return row;
}

/** @param {number} power */
function exponent(power) {
  return power === 1 ? "" : [...String(power)].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)]).join("");
}

/** @param {number[]} values */
function total(values) {
  return values.reduce((sum, each) => sum + each, 0);
}

/** @param {number[]} values */
function mean(values) {
  return total(values) / values.length;
}
