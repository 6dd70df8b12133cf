// The view of one claim: its sentence, its verdict as a word with a shape, the theory, the
// measurements, and the button that measures it here.

import { lessonLink } from "../learn/learn_address.js";
import { element } from "../shared/dom.js";
import { body, bodyRow, DASH, headRow } from "./cells.js";

// The CSS class that sets the shape and colour of each verdict.
/** @type {Record<string, string>} */
export const VERDICTS = {
  holds: "holds",
  "holds under conditions": "conditional",
  wrong: "wrong",
  undecided: "undecided",
};

/**
 * @param {any} claim
 * @param {{ budget: string }} given
 * @param {any} [place]
 */
export function claimView(claim, { budget }, place = null) {
  const view = element("details", "lab-claim");
  Object.assign(view.dataset, { number: claim.number, verdict: claim.verdict });
  const summary = element("summary");
  summary.append(
    element("span", "claim-number", String(claim.number)),
    element("span", "claim-title", claim.title),
    chip(claim.verdict),
  );
  summary.append(element("span", "claim-key hint", claim.answer));
  view.append(summary, claimBody(claim, budget, place));
  return view;
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
  const { said, sources, theory, measured, not_measurable: reason, lesson } = claim;
  const made = element("div", "claim-body");
  const texts = sources.map((/** @type {any} */ { title }) => title).join("; ");
  made.append(
    part(
      "Claim",
      element("p", "", said),
      element("p", "hint", `In substance, not word for word, from ${texts}.`),
    ),
  );
  made.append(
    part(
      claim.decided_by === "source" ? "Source" : "Theory",
      element("p", "", theory.sentence),
      ...numbers(theory.numbers),
      explained(lesson),
    ),
  );
  made.append(part("Try", tryForm(claim)));
  if (reason) made.append(part("Here", element("p", "", `Not measured: it ${reason}.`)));
  else made.append(part("Here", ...here(measured, place), measure(measured, budget)));
  return made;
}

// Return a line with a link to the lesson that explains the claim.
/** @param {{ name: string, title: string }} lesson */
function explained({ name, title }) {
  const line = element("p", "hint", "Explained in the lesson ");
  const link = element("a", "", title);
  link.href = lessonLink(name);
  link.dataset.place = "";
  line.append(link);
  return line;
}

// Return the fields for the user's own numbers. The result that theory gives for them appears below
// (see `triedView`).
/** @param {any} claim */
function tryForm({ number, own_numbers: fields }) {
  const form = element("div", "claim-try");
  form.dataset.try = String(number);
  const error = element("p", "error");
  error.id = `sv-claim-${number}-error`;
  error.role = "alert";
  error.hidden = true;
  const row = element("div", "claim-fields");
  row.append(
    ...fields.map((/** @type {OwnNumber} */ field, /** @type {number} */ at) =>
      ownField(field, `sv-claim-${number}-${at}`, error.id),
    ),
  );
  const found = element("div", "claim-tried");
  found.role = "status";
  form.append(row, error, found);
  return form;
}

/** @typedef {{ name: string, title: string, text: string }} OwnNumber */

/**
 * @param {OwnNumber} field
 * @param {string} id
 * @param {string} error
 */
function ownField({ name, title, text }, id, error) {
  const made = element("div", "field");
  const label = element("label", "", title);
  const input = element("input");
  label.htmlFor = input.id = id;
  input.type = "text";
  input.value = text;
  input.autocomplete = "off";
  input.dataset.own = name;
  input.size = Math.max(6, text.length + 1);
  input.setAttribute("aria-describedby", error);
  made.append(label, input);
  return made;
}

// Return the result that theory gives for the typed numbers.
/** @param {{ verdict: string | null, sentence: string, numbers: any[] }} theory */
export function triedView({ verdict, sentence, numbers: listed }) {
  const line = element("p");
  if (verdict && verdict !== "undecided") line.append(chip(verdict), " ");
  line.append(sentence);
  return [line, ...numbers(listed)];
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
  const rows = listed.map(({ name, value, unit, claimed }) =>
    bodyRow([name, digits(value, unit), claimed === null ? DASH : digits(claimed, unit)]),
  );
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
  const rows = measured.figures.map((/** @type {any} */ { name, value, unit, spread }) =>
    bodyRow([
      name,
      digits(value, unit),
      spread ? spread.map((/** @type {any} */ end) => digits(end, "")).join(" to ") : DASH,
    ]),
  );
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

// Write a number with three significant digits, or as a whole number from 1000 on.
/**
 * @param {number} value
 * @param {string} unit
 */
function digits(value, unit) {
  const text =
    Math.abs(value) >= 1000
      ? Math.round(value).toLocaleString("en")
      : String(Number(value.toPrecision(3)));
  return unit === "x" ? `${text}×` : `${text} ${unit}`.trim();
}
