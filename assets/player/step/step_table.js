// The walk of one round as far as it has come: what was examined, in order, and what decided it.
// Knows a round and a moment; a row selects its node.

import { EXTRA } from "../cursor.js";
import { element } from "../dom.js";
import { probability } from "../probability.js";
import { tokenLabel } from "../tooltip.js";
import { stageOf } from "./moments.js";

const MARKS = { accepted: "●", rejected: "✕", recovered: "◆", bonus: "★", first: "◆" };

export class StepTable {
  constructor(table, { onSelect }) {
    this.table = table;
    table.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-node]");
      if (row) onSelect(Number(row.dataset.node));
    });
  }

  clear() {
    this.table.replaceChildren();
  }

  draw(trace, round, moments, at) {
    const head = element("tr");
    const raw = trace.isGreedy ? "raw " : "";
    const rule = round.isPointMass ? "p/1" : "p/q"; // for its rule every guess was certain
    for (const name of ["examined", `${raw}p`, `${raw}q`, rule, "u", "verdict"]) head.append(element("th", "", name));
    const [top, body] = [element("thead"), element("tbody")];
    top.append(head);
    body.append(...round.stops.map((stop) => row(trace, round, stop, stageOf(round, moments, at, stop))));
    body.querySelector(`[data-node="${moments[at].node}"]`)?.classList.add("is-selected");
    this.table.replaceChildren(top, body);
  }
}

function row(trace, round, stop, stage) {
  const made = element("tr", stage === "judged" ? "" : "is-later");
  made.dataset.node = String(stop);
  const isKnown = stage === "judged";
  const text = stop === EXTRA && !isKnown ? "?" : tokenLabel(trace.text(round.tokenId(stop)));
  made.append(element("td", "token-text", text));
  const cells = stop === EXTRA ? drawn(round, isKnown) : numbers(trace, round, stop);
  for (const value of cells) made.append(element("td", "number", value));
  const outcome = stop === EXTRA ? round.extraKind : round.outcomes[stop];
  const verdict = element("td", `verdict ${isKnown ? outcome : ""}`);
  if (isKnown) verdict.append(element("i", "", MARKS[outcome]), ` ${outcome}`);
  made.append(verdict);
  return made;
}

// The extra token was not examined but drawn: from the residual (r) or from p itself.
function drawn({ extra, isTypical }, isKnown) {
  const law = extra.kind === "recovered" && !isTypical ? "r" : "p";
  return [isKnown ? `${law} ${probability(extra.prob)}` : "", "", "", ""];
}

function numbers(trace, round, stop) {
  const verdict = round.verdict(stop);
  const { p, accept, u, raw_p } = verdict;
  if (round.isTypical) return [probability(p), "–", accept > 0 ? "enough" : "too low", "–"];
  if (trace.isGreedy) return [probability(raw_p), probability(round.shownQ(stop, true)), accept > 0 ? "1" : "0", "–"];
  const compared = verdict.residual ?? p;
  const star = round.followsRejection(stop) ? "*" : "";
  const drawn = u === null ? "unseen" : probability(u);
  return [`${probability(compared)}${star}`, probability(round.shownQ(stop, false)), ratio(compared / verdict.q), drawn];
}

function ratio(value) {
  if (value >= 100) return "> 99";
  return value > 0 && value < 0.01 ? probability(value) : value.toFixed(2);
}

// After a rejected sibling p is what was left of it: said once, for the row under the cursor.
export function residualNote(round, node) {
  const isStarred = round.stops.some((stop) => stop !== EXTRA && round.followsRejection(stop));
  if (!isStarred || round.isTypical) return "";
  const usual = "* after a sibling’s rejection p is what was left of it, the residual";
  if (node === null || node === EXTRA || !round.followsRejection(node)) return usual;
  const { p, residual } = round.verdict(node);
  return residual === null ? usual : `${usual}: here ${probability(p)} → ${probability(residual)}`;
}
