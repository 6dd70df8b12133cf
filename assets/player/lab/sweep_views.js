// A sweep's charts and table round one picked point.
// Knows what the server draws (specviz/ui/lab_views.py); measures nothing.

import { Chart } from "../shared/charts.js";
import { setText } from "../shared/dom.js";
import { pointRows } from "./sweep_table.js";

export class SweepViews {
  // `ask(picked)` has the sweep drawn anew round another point.
  constructor(refs, theme, axes, ask) {
    this.refs = refs;
    this.axes = axes;
    this.ask = ask;
    this.told = null;
    const onLine = (at) => this.pick(this.told.line[at]);
    const onCell = (cell) => this.pick(this.told.cells[cell.join(",")]);
    this.charts = {
      heatmap: new Chart(refs.labHeatmap, theme, onCell),
      speedup: new Chart(refs.labSpeedup, theme, onLine),
      times: new Chart(refs.labTimes, theme, onLine),
      depth: new Chart(refs.labDepth, theme),
    };
    refs.sweepTable.addEventListener("click", (event) => {
      const button = event.target.closest("[data-place]");
      if (button) this.pick(Number(button.dataset.place));
    });
  }

  pick(place) {
    if (place !== undefined && place !== this.told.picked) this.ask(place);
  }

  // To the next or the previous measured point.
  step(by) {
    const known = this.places.map(({ place }) => place);
    const at = known.indexOf(this.told?.picked);
    if (known.length) this.pick(known[Math.max(0, Math.min(known.length - 1, at + by))]);
  }

  draw(told, sweep) {
    const { refs } = this;
    this.told = told;
    this.sweep = sweep;
    refs.sweepViews.hidden = told.picked === null;
    if (told.picked === null) return refs.sweepTable.replaceChildren();
    refs.heatmapCard.hidden = !told.figures.heatmap;
    setText(refs.lineWords, told.line_words);
    setText(refs.noiseWords, told.noise_words);
    refs.noiseLegend.hidden = !told.noise_words;
    setText(refs.pickedWords, `at ${told.picked_words}`);
    for (const [name, chart] of Object.entries(this.charts)) {
      if (told.figures[name]) chart.draw(told.figures[name]);
      else chart.clear();
    }
    this.drawTable();
  }

  // The measured points in the plan's order, each with its place there.
  get places() {
    if (!this.told || this.sweep.isEmpty) return [];
    const { axes } = this.sweep.plan;
    const placeOf = ({ setting }) => axes.reduce((place, [name, values]) => place * values.length + values.indexOf(setting[name]), 0);
    return this.sweep.points.map((point) => ({ place: placeOf(point), point })).sort((a, b) => a.place - b.place);
  }

  get picked() {
    return this.places.find(({ place }) => place === this.told.picked)?.point ?? null;
  }

  drawTable() {
    const { sweepTable } = this.refs;
    const held = document.activeElement?.closest?.("[data-place]")?.dataset.place;
    const titles = this.sweep.plan.axes.map(([name]) => this.axes.find((axis) => axis.name === name).title);
    sweepTable.replaceChildren(...pointRows(this.places, titles, this.told));
    if (held && !document.activeElement?.closest?.("[data-place]")) sweepTable.querySelector(`[data-place="${held}"]`)?.focus({ preventScroll: true });
  }

  repaint() {
    for (const chart of Object.values(this.charts)) chart.react();
  }
}
