// What the tables of a walk have in common: the row of one stop, and the mark of each verdict.

import { EXTRA } from "./cursor.js";
import { element } from "./dom.js";
import { probability } from "./probability.js";

const MARKS = { accepted: "●", rejected: "✕", recovered: "◆", bonus: "★", first: "◆" };

// `values` fill the numbers' columns; `outcome` is "" while it is not known.
export function verdictRow(stop, text, values, outcome) {
  const row = element("tr");
  row.dataset.node = String(stop);
  row.append(element("td", "token-text", text), ...values.map((value) => element("td", "number", value)));
  const verdict = element("td", `verdict ${outcome}`);
  if (outcome) verdict.append(element("i", "", MARKS[outcome]), ` ${outcome}`);
  row.append(verdict);
  return row;
}

export function verdictHead(isGreedy, rule) {
  const raw = isGreedy ? "raw " : "";
  const head = element("tr");
  for (const name of ["examined", `${raw}p`, `${raw}q`, rule, "u", "verdict"]) head.append(element("th", "", name));
  return head;
}

export function outcomeOf(round, stop) {
  return stop === EXTRA ? round.extraKind : round.outcomes[stop];
}

// The extra token was not examined but drawn: from the residual (r), which is what p has beyond q,
// scaled to sum to 1, or from p itself.
export function drawnProbability({ extra, isTypical }) {
  return `${extra.kind === "recovered" && !isTypical ? "r" : "p"} ${probability(extra.prob)}`;
}
