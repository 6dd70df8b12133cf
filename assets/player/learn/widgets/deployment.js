// A widget that computes what speculation gains on a deployment whose numbers the learner can
// change. The server has the formulas (specviz/ui/course/deployment_answer.py).

import { Chart } from "../../shared/charts.js";
import { element, option, setText } from "../../shared/dom.js";
import { Widget } from "../widget.js";

// The GPUs in the lesson and the names of their data sheets (specviz/sizing/gpus.toml). `own` is a
// machine whose three numbers the learner enters.
/** @type {Record<string, string>} */
const SHEETS = { h100: "h100-sxm", a100: "a100-80", rtx4090: "rtx-4090" };
const OWN = { title: "My own numbers", memory: 64, bandwidth: 100, arithmetic: 2 };
const MOST_ROWS = 512; // largest batch that the server computes
/** @typedef {{ title: string, low: number, high: number, step?: number, isWhole?: boolean }} Field */
/** @type {Record<string, Field>} */
const FIELDS = {
  memory: { title: "Memory, GB", low: 0.1, high: 1e6 },
  bandwidth: { title: "Speed of the memory, GB/s", low: 1, high: 1e6 },
  arithmetic: { title: "Arithmetic, TFLOP/s", low: 0.01, high: 1e6 },
  parameters: { title: "Target, billions of parameters", low: 0.001, high: 10000 },
  draft_parameters: { title: "Draft, billions of parameters", low: 0.001, high: 10000 },
  bytes_per_weight: { title: "Bytes per weight", low: 0.25, high: 8 },
  cache: { title: "Target’s KV cache, kB for each token of text", low: 0, high: 1e5 },
  draft_cache: { title: "Draft’s KV cache, kB for each token of text", low: 0, high: 1e5 },
  experts: {
    title: "Experts, if the target is a mixture of them (1: it is not)",
    low: 1,
    high: 512,
    isWhole: true,
  },
  active: { title: "Experts that a token uses", low: 1, high: 512, isWhole: true },
  a: { title: "α, share of examined guesses that pass", low: 0, high: 1, step: 0.05 },
  K: { title: "K, guesses ahead", low: 1, high: 32, isWhole: true },
  rows: { title: "Rows: texts decoded at once", low: 1, high: MOST_ROWS, isWhole: true },
  prompt: { title: "Tokens of the prompt", low: 1, high: 100000, isWhole: true },
  answer: { title: "Tokens of the answer", low: 1, high: 100000, isWhole: true },
};
// Default values. Sizes and caches are close to those of Llama 3.1 8B and Qwen2.5 0.5B
// (specviz/sizing/models.toml).
/** @type {Record<string, number>} */
const USUAL = {
  parameters: 8,
  draft_parameters: 0.5,
  bytes_per_weight: 2,
  cache: 131,
  draft_cache: 12.3,
  experts: 1,
  active: 1,
  a: 0.75,
  K: 4,
  rows: 1,
  prompt: 500,
  answer: 300,
};
const WORTH = 1.05; // smallest speedup that justifies a second model
// An exercise asks for a plan whose speedup for whole requests is below this value.
const SHORT = 1.2;

export class Deployment extends Widget {
  static id = "deployment";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on);
    /** @type {Record<string, number>} */
    this.at = { ...USUAL };
    this.machine = "h100";
    this.machines = machines(course.setup.serve.gpus);
    /** @type {any} */
    this.answer = null;
    this.asked = 0;
    this.isMoved = false; // true if the learner has changed something in this step
    this.isLocked = false;
    this.choice = element("select");
    this.choice.append(
      ...Object.entries(this.machines).map(([name, { title }]) => option(name, title)),
    );
    this.choice.addEventListener("change", () => (this.take(this.choice.value), this.moved()));
    const chosen = element("label", "plan-field");
    chosen.append(element("span", "", "Machine"), this.choice);
    this.fields = Object.entries(FIELDS).map(([name, field]) => this.field(name, field));
    const form = element("div", "plan-form");
    form.append(chosen, ...this.fields.map(({ label }) => label));
    this.error = element("p", "error");
    this.error.setAttribute("role", "alert");
    this.verdict = element("p", "guess-verdict");
    this.verdict.setAttribute("aria-live", "polite");
    this.facts = element("dl", "plan-facts");
    this.picture = element("div", "chart-card");
    const place = element("div", "chart");
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", "Speedup by the rows of the batch, by theory");
    this.picture.append(
      element("h3", "", "Speedup by rows decoded at once"),
      place,
      element("p", "hint", "Computed from the numbers above by theory; nothing here was measured."),
    );
    box.classList.add("deployment");
    box.replaceChildren(form, this.error, this.verdict, this.facts, this.picture);
    this.chart = new Chart(place, course.theme);
  }

  /**
   * @param {string} name
   * @param {Field} field
   */
  field(name, { title, low, high, step, isWhole }) {
    const label = element("label", "plan-field");
    const input = element("input");
    input.type = "number";
    [input.min, input.max, input.step] = [
      String(low),
      String(high),
      step ? String(step) : isWhole ? "1" : "any",
    ];
    input.dataset.name = name;
    input.addEventListener("input", () => {
      if (name in OWN) this.choice.value = this.machine = "own";
      this.at = { ...this.at, [name]: input.valueAsNumber };
      this.moved();
    });
    label.append(element("span", "", title), input);
    return { name, label, input };
  }

  /** @param {string} machine */
  take(machine) {
    const { title: _title, ...sheet } = this.machines[machine];
    this.machine = machine;
    this.at = { ...this.at, ...sheet };
  }

  moved() {
    this.isMoved = true;
    return this.ask();
  }

  /** @param {Record<string, string>} scene */
  async set(scene) {
    const given = Object.keys(USUAL)
      .filter((name) => scene[name])
      .map((name) => [name, Number(scene[name])]);
    this.at = { ...USUAL, ...Object.fromEntries(given) };
    this.take(scene.machine ?? "h100");
    this.isMoved = false;
    const shown = (scene.fields ?? "").split(" ");
    const isAll = scene.fields === "all";
    /** @type {HTMLElement} */ (this.choice.parentElement).hidden =
      !isAll && !shown.includes("machine");
    for (const { name, label } of this.fields) label.hidden = !isAll && !shown.includes(name);
    this.lock(scene.locked === "true");
    await this.ask();
  }

  reveal() {
    this.lock(false);
    this.draw();
  }

  // Lock the numbers and hide the results, until the learner has predicted them.
  /** @param {boolean} isLocked */
  lock(isLocked) {
    this.isLocked = isLocked;
    this.verdict.hidden = this.facts.hidden = this.picture.hidden = isLocked;
    for (const { input } of this.fields) input.disabled = isLocked;
    this.choice.disabled = isLocked;
  }

  // Ask the server for the results. Only the answer to the latest question is used.
  async ask() {
    const number = (this.asked += 1);
    for (const { name, input } of this.fields)
      if (document.activeElement !== input) input.value = String(this.at[name]);
    this.choice.value = this.machine;
    const answer = await this.course.drive.ask("deployment", this.at);
    if (number !== this.asked) return;
    const problem = answer ? answer.error : "The server cannot be reached.";
    setText(this.error, problem ? inWords(problem) : "");
    // hide old results, because they belong to earlier numbers
    this.verdict.hidden =
      this.facts.hidden =
      this.picture.hidden =
        this.isLocked || Boolean(problem);
    if (problem) return;
    this.answer = answer;
    this.draw();
    if (this.isMoved) {
      if (Number(answer.speedup.toFixed(2)) < 1) this.on.reached("no-gain");
      if (answer.speedup > WORTH) this.on.reached("gain");
      if (answer.request_speedup < SHORT) this.on.reached("short");
    }
    this.on.changed();
  }

  repaint() {
    if (this.answer && !this.isLocked) this.chart.draw(this.answer.figure);
  }

  get values() {
    const { at, answer, machine, machines: all } = this;
    const { figure: _figure, error: _error, paying_rows: _paying, ...numbers } = answer ?? {};
    const none = Object.fromEntries(NUMBERS.map((name) => [name, undefined]));
    const {
      memory: _memory,
      bandwidth: _bandwidth,
      arithmetic: _arithmetic,
      bytes_per_weight: _bytes,
      cache: _cache,
      draft_cache: _draftCache,
      ...plan
    } = at;
    return { ...none, ...numbers, ...plan, machine: all[machine].title };
  }

  draw() {
    const { answer, at } = this;
    if (!answer) return;
    const {
      speedup,
      request_speedup: request,
      best,
      best_speedup: most,
      cost,
      overhead,
      tokens,
      ridge,
      cache_weight: cache,
      paying_rows: paying,
      fitting_rows: fitting,
    } = answer;
    const isWorth = speedup > WORTH;
    const shown = speedup.toFixed(2); // the sentence must agree with the rounded number that it contains
    this.verdict.className = `guess-verdict ${isWorth ? "accepted" : "rejected"}`;
    setText(
      this.verdict,
      `${isWorth ? "Speculate" : Number(shown) < 1 ? "Do not" : "Hardly worth it"}: while it writes, ${shown} times the speed of plain decoding. Best K here: ${best}, with ${most.toFixed(2)}.`,
    );
    const facts = [
      ["tokens from one look", tokens.toFixed(2)],
      ["a look over its guesses, compared with one over a token", `${overhead.toFixed(2)} times`],
      ["a guess, compared with a look", cost.toFixed(3)],
      ["arithmetic binds from", `${Math.round(ridge).toLocaleString("en")} tokens in a forward`],
      ["the cache that a look reads, compared with the weights", `${cache.toFixed(2)} times`],
      [`by this theory K = ${at.K} pays`, payingWords(paying)],
      ["the memory holds", rowsWords(fitting, MOST_ROWS)],
      [
        "a whole request alone, with its prompt",
        `${request.toFixed(2)} times (${seconds(answer.plain_seconds)} → ${seconds(answer.request_seconds)})`,
      ],
      ...(at.experts > 1
        ? [
            [
              "experts that a look reads",
              `${answer.touched.toFixed(1)} of ${at.experts}; one token: ${answer.touched_one.toFixed(0)}`,
            ],
          ]
        : []),
    ];
    this.facts.replaceChildren(
      ...facts.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]),
    );
    if (!this.isLocked) this.chart.draw(answer.figure);
  }
}

// Replace the server's name of a field in an error by its title in the form.
/** @param {string} problem */
function inWords(problem) {
  const [name] = problem.split(" ");
  return name in FIELDS ? problem.replace(name, `“${FIELDS[name].title}”`) : problem;
}

const NUMBERS = [
  "speedup",
  "cost",
  "overhead",
  "tokens",
  "ridge",
  "cache_weight",
  "fitting_rows",
  "best",
  "best_speedup",
  "token_seconds",
  "rate",
  "prefill_share",
  "plain_seconds",
  "request_seconds",
  "request_speedup",
  "touched_one",
  "touched",
];

/**
 * @param {number} rows
 * @param {number} [most] the largest batch that was computed; a larger one may pay as well
 */
function rowsWords(rows, most = Infinity) {
  return rows >= most ? `${rows} rows and more` : `${rows || "no"} ${rows === 1 ? "row" : "rows"}`;
}

// Say with which batches speculation pays: from the first number of rows to the second.
/** @param {[number, number] | null} paying */
function payingWords(paying) {
  if (!paying) return `at no batch up to ${MOST_ROWS} rows`;
  const [first, last] = paying;
  return first === 1
    ? `at every batch up to ${rowsWords(last, MOST_ROWS)}`
    : `from ${first} rows to ${rowsWords(last, MOST_ROWS)}`;
}

/** @param {number} value */
function seconds(value) {
  return value < 1 ? `${(1000 * value).toFixed(0)} ms` : `${value.toFixed(2)} s`;
}

/**
 * @param {Setup["serve"]["gpus"]} gpus
 * @returns {Record<string, { title: string, memory: number, bandwidth: number, arithmetic: number }>}
 */
function machines(gpus) {
  const known = Object.entries(SHEETS).map(([name, sheet]) => [name, gpus[sheet]]);
  return { ...Object.fromEntries(known), own: OWN };
}
