// One claim: its sentence, its verdict as a word with a shape, theory, what was measured, a button.

import { element } from "../shared/dom.js";
import { body, bodyRow, DASH, headRow } from "./cells.js";

// verdict -> class of its shape and colour
/** @type {Record<string, string>} */
export const VERDICTS = {
  holds: "holds",
  "holds under conditions": "conditional",
  wrong: "wrong",
  undecided: "undecided",
};

// what a claim says for which theory has nothing to set beside it, by what decides it
/** @type {Record<string, string>} */
const WITHOUT_NUMBER = { measurement: "not measured here yet", source: "decided by what the sources say" };

/**
 * @param {any} claim
 * @param {{ budget: string }} given
 * @param {any} [place]
 */
export function claimView(claim, { budget }, place = null) {
  const view = element("details", "lab-claim");
  Object.assign(view.dataset, { number: claim.number, verdict: claim.verdict });
  const summary = element("summary");
  summary.append(element("span", "claim-number", String(claim.number)), element("span", "claim-title", claim.title), chip(claim.verdict));
  summary.append(element("span", "claim-key hint", keyWords(claim)));
  view.append(summary, claimBody(claim, budget, place));
  return view;
}

// The number that tells most: what was measured, else theory's that is furthest from the claimed one,
// a factor where there is any.
/** @param {Reply} claim */
function keyWords({ measured, theory, decided_by: judge }) {
  if (measured) return `measured: ${measured.figures.slice(0, 1).map(figureWords)[0] ?? measured.verdict}`;
  const beside = theory.numbers.filter((/** @type {any} */ { claimed }) => claimed !== null).sort((/** @type {any} */ a, /** @type {any} */ b) => gap(b) - gap(a));
  const number = beside.find((/** @type {any} */ { unit }) => unit === "x") ?? beside[0];
  if (number) return `by theory: ${figureWords(number)}; claimed ${digits(number.claimed, number.unit)}`;
  return WITHOUT_NUMBER[judge] ?? `by theory: ${figureWords(theory.numbers[0])}`;
}

/** @param {{ value: number, claimed: number }} number */
function gap({ value, claimed }) {
  return Math.abs(value - claimed) / Math.max(Math.abs(value), Math.abs(claimed), Number.MIN_VALUE);
}

/** @param {{ name: string, value: number, unit: string }} figure */
function figureWords({ name, value, unit }) {
  return `${name} is ${digits(value, unit)}`;
}

/** @param {string} verdict */
function chip(verdict) {
  return element("span", `verdict-chip ${VERDICTS[verdict]}`, verdict);
}

/**
 * @param {any} claim
 * @param {string} budget
 * @param {any} place
 */
function claimBody(claim, budget, place) {
  const { said, sources, theory, measured, not_measurable: reason } = claim;
  const made = element("div", "claim-body");
  const texts = sources.map((/** @type {any} */ { title }) => title).join("; ");
  made.append(part("Claim", element("p", "", said), element("p", "hint", `From ${texts}.`)));
  made.append(part(claim.decided_by === "source" ? "Source" : "Theory", element("p", "", theory.sentence), ...numbers(theory.numbers)));
  if (reason) made.append(part("Here", element("p", "", `Not measured: it ${reason}.`)));
  else made.append(part("Here", ...here(measured, place), measure(measured, budget)));
  return made;
}

/**
 * @param {string} name
 * @param {...(string | Node)} children
 */
function part(name, ...children) {
  const made = element("section", "claim-part");
  const content = element("div");
  content.append(...children);
  made.append(element("h3", "", name), content);
  return made;
}

/** @param {any[]} listed */
function numbers(listed) {
  if (!listed.length) return [];
  const rows = listed.map(({ name, value, unit, claimed }) => bodyRow([name, digits(value, unit), claimed === null ? DASH : digits(claimed, unit)]));
  return [table(["", "theory", "claimed"], rows)];
}

/**
 * @param {any} measured
 * @param {any} place
 */
function here(measured, place) {
  if (!measured) return [];
  const line = element("p");
  line.append(chip(measured.verdict), " ", measured.sentence);
  const rows = measured.figures.map((/** @type {any} */ { name, value, unit, spread }) => bodyRow([name, digits(value, unit), spread ? spread.map((/** @type {any} */ end) => digits(end, "")).join(" to ") : DASH]));
  const where = place ? [element("p", "hint", `Measured on ${place.device}, ${place.dtype}.`)] : [];
  return [line, table(["", "measured", "spread"], rows), ...where];
}

/**
 * @param {string[]} titles
 * @param {HTMLElement[]} rows
 */
function table(titles, rows) {
  const made = element("table", "points");
  made.append(headRow(titles), body(rows));
  return made;
}

/**
 * @param {any} measured
 * @param {string} budget
 */
function measure(measured, budget) {
  const row = element("p", "row tight measure");
  const go = element("button", "secondary", measured ? "Measure again" : "Measure here");
  const stop = element("button", "secondary", "Stop");
  const state = element("span", "hint", measured ? "" : `on the bundled pair, ${budget}`);
  go.type = stop.type = "button";
  go.dataset.measure = "";
  stop.dataset.part = "stop";
  stop.disabled = true;
  state.dataset.part = "state";
  state.role = "status";
  row.append(go, stop, state);
  return row;
}

// Three significant digits, whole from 1000 on.
/**
 * @param {number} value
 * @param {string} unit
 */
function digits(value, unit) {
  const text = Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
  return unit === "x" ? `${text}×` : `${text} ${unit}`.trim();
}
