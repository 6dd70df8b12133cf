// All points of a sweep as a table; a row's first cell picks its point.
// Knows points as the server measures them.

import { element } from "../shared/dom.js";

const DASH = "–";
const COLUMNS = [
  ["speedup", (point) => `${point.speedup.toFixed(2)}×`],
  ["spread", ({ speedup_spread: [low, high] }) => `${low.toFixed(2)}–${high.toFixed(2)}`],
  ["theory", (point) => digits(point.theory_speedup, 2, "×")],
  ["acceptance α", (point) => digits(point.acceptance_rate, 2)],
  ["tokens τ", (point) => digits(point.block_efficiency, 2)],
  ["tok/s", (point) => point.tokens_per_second.toFixed(1)],
  ["baseline tok/s", (point) => point.baseline_tokens_per_second.toFixed(1)],
  ["cost c", (point) => digits(point.cost_ratio, 3)],
];

function digits(value, count, unit = "") {
  return value === null ? DASH : value.toFixed(count) + unit;
}

// `places`: each point with its place in the plan; `titles`: those of the axes.
export function pointRows(places, titles, { picked, best }) {
  const head = element("thead");
  const row = element("tr");
  row.append(...titles.map((title) => heading(title, "")), ...COLUMNS.map(([name]) => heading(name, "number")));
  head.append(row);
  const body = element("tbody");
  body.append(...places.map(({ place, point }) => pointRow(place, point, { picked, best })));
  return [head, body];
}

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
  for (const [name, value] of COLUMNS) row.append(element("td", `number${name === "speedup" && place === best ? " best" : ""}`, value(point)));
  return row;
}

function heading(text, className) {
  const made = element("th", className, text);
  made.scope = "col";
  return made;
}
