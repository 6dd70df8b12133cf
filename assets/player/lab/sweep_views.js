// The charts and the table of a sweep, with one selected point.

import { Chart } from "../shared/charts.js";
import { element, setText } from "../shared/dom.js";
import { DASH, headCell, memoryWords, milliseconds } from "./cells.js";
import { KeptSweep } from "./kept_sweep.js";

export class SweepViews {
  // `ask(picked)` asks the server for the charts with another selected point.
  /**
   * @param {Refs} refs
   * @param {Theme} theme
   * @param {SweepAxis[]} axes
   * @param {(place: number) => void} ask
   */
  constructor(refs, theme, axes, ask) {
    this.refs = refs;
    this.axes = axes;
    this.ask = ask;
    /** @type {Reply} */
    this.reply = null;
    this.sweep = new KeptSweep();
    const onLine = (/** @type {number} */ at) => this.pick(this.reply.line[at]);
    const onCell = (/** @type {(string | number)[]} */ cell) =>
      this.pick(this.reply.cells[cell.join(",")]);
    this.charts = {
      heatmap: new Chart(refs.labHeatmap, theme, onCell),
      speedup: new Chart(refs.labSpeedup, theme, onLine),
      times: new Chart(refs.labTimes, theme, onLine),
      depth: new Chart(refs.labDepth, theme),
    };
    refs.sweepTable.addEventListener("click", (/** @type {any} */ event) => {
      const button = event.target.closest("[data-place]");
      if (button) this.pick(Number(button.dataset.place));
    });
  }

  /** @param {number} place */
  pick(place) {
    if (place !== undefined && place !== this.reply.picked) this.ask(place);
  }

  // Select the next or the previous measured point.
  /** @param {number} by */
  step(by) {
    const known = this.places.map((/** @type {any} */ { place }) => place);
    const at = known.indexOf(this.reply?.picked);
    if (known.length) this.pick(known[Math.max(0, Math.min(known.length - 1, at + by))]);
  }

  /**
   * @param {Reply} reply
   * @param {KeptSweep} sweep
   */
  draw(reply, sweep) {
    const { refs } = this;
    this.reply = reply;
    this.sweep = sweep;
    refs.sweepViews.hidden = reply.picked === null;
    if (reply.picked === null) return refs.sweepTable.replaceChildren();
    refs.heatmapCard.hidden = !reply.figures.heatmap;
    setText(refs.lineWords, reply.line_words);
    setText(refs.noiseWords, reply.noise_words);
    refs.noiseLegend.hidden = !reply.noise_words;
    setText(refs.pickedWords, `at ${reply.picked_words}`);
    for (const [name, chart] of Object.entries(this.charts)) {
      if (reply.figures[name]) chart.draw(reply.figures[name]);
      else chart.clear();
    }
    this.drawTable();
  }

  // The measured points in the order of the plan, each with its index in the plan.
  get places() {
    if (!this.reply || this.sweep.isEmpty) return [];
    const { axes } = this.sweep.plan;
    const placeOf = (/** @type {any} */ { setting }) =>
      axes.reduce(
        (/** @type {number} */ place, /** @type {any} */ [name, values]) =>
          place * values.length + values.indexOf(setting[name]),
        0,
      );
    return this.sweep.points
      .map((/** @type {any} */ point) => ({ place: placeOf(point), point }))
      .sort((/** @type {any} */ a, /** @type {any} */ b) => a.place - b.place);
  }

  get picked() {
    return (
      this.places.find((/** @type {any} */ { place }) => place === this.reply.picked)?.point ?? null
    );
  }

  drawTable() {
    const { sweepTable } = this.refs;
    const held = document.activeElement?.closest?.("[data-place]")?.getAttribute("data-place");
    const titles = this.sweep.plan.axes.map(
      (/** @type {any} */ [name]) => this.axes.find((axis) => axis.name === name)?.title,
    );
    sweepTable.replaceChildren(...pointRows(this.places, titles, this.reply));
    if (held && !document.activeElement?.closest?.("[data-place]"))
      sweepTable.querySelector(`[data-place="${held}"]`)?.focus({ preventScroll: true });
  }

  repaint() {
    for (const chart of Object.values(this.charts)) chart.react();
  }
}

// The table of all points of a sweep. A click on the first cell of a row selects its point. A
// column is its heading and a function from a point to its text.
/** @type {[string, (point: any) => string][]} */
const COLUMNS = [
  ["speedup", (point) => `${point.speedup.toFixed(2)}×`],
  [
    "spread",
    ({ speedup_spread: [low, high] }) =>
      low < high ? `${low.toFixed(2)}–${high.toFixed(2)}` : DASH,
  ],
  ["explained", (point) => digits(point.theory_speedup, 2, "×")],
  ["acceptance rate α", (point) => digits(point.acceptance_rate, 2)],
  ["rejection rate", (point) => digits(point.rejection_rate, 2)],
  ["draft utilization", (point) => digits(point.draft_utilization, 2)],
  ["tokens per target forward τ", (point) => digits(point.block_efficiency, 2)],
  ["tok/s", (point) => point.tokens_per_second.toFixed(1)],
  ["baseline tok/s", (point) => point.baseline_tokens_per_second.toFixed(1)],
  ["first token after", (point) => milliseconds(point.ttft_seconds)],
  ["baseline’s", (point) => milliseconds(point.baseline_ttft_seconds)],
  ["cost c", (point) => digits(point.cost_ratio, 3)],
  ["memory in addition to the target", memoryWords],
];

/**
 * @param {number | null | undefined} value undefined in files of older versions, which do not have it
 * @param {number} count
 */
function digits(value, count, unit = "") {
  return value === null || value === undefined ? DASH : value.toFixed(count) + unit;
}

// Return the rows of the table. `places` are the points with their indexes in the plan. `titles`
// are the titles of the axes.
/**
 * @param {{ place: number, point: any }[]} places
 * @param {string[]} titles
 * @param {{ picked: number | null, best: number | null }} marked
 */
function pointRows(places, titles, { picked, best }) {
  const head = element("thead");
  const row = element("tr");
  row.append(
    ...titles.map((title) => headCell(title, "")),
    ...COLUMNS.map(([name]) => headCell(name, "number")),
  );
  head.append(row);
  const body = element("tbody");
  body.append(...places.map(({ place, point }) => pointRow(place, point, { picked, best })));
  return [head, body];
}

/**
 * @param {number} place
 * @param {any} point
 * @param {{ picked: number | null, best: number | null }} marked
 */
function pointRow(place, point, { picked, best }) {
  const row = element("tr", place === picked ? "is-selected" : "");
  const [first, ...others] = Object.values(point.setting);
  const cell = element("td");
  const button = element("button", "pick", String(first));
  button.type = "button";
  button.dataset.place = String(place);
  button.setAttribute("aria-pressed", String(place === picked));
  button.setAttribute("aria-label", `Show the point ${Object.values(point.setting).join(", ")}`);
  cell.append(button);
  row.append(cell, ...others.map((value) => element("td", "", String(value))));
  for (const [name, value] of COLUMNS)
    row.append(
      element("td", `number${name === "speedup" && place === best ? " best" : ""}`, value(point)),
    );
  return row;
}
