// The walk of one round as far as it has come: what was examined, in order, and what decided it.
// Knows a round and a moment; a row selects its node.

import { EXTRA } from "../cursor.js";
import { element } from "../dom.js";
import { probability } from "../probability.js";
import { tokenLabel } from "../tooltip.js";
import { drawnProbability, outcomeOf, verdictHead, verdictRow } from "../verdict_row.js";
import { stageOf } from "./moments.js";

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
    const [top, body] = [element("thead"), element("tbody")];
    top.append(verdictHead(trace.isGreedy, round.isPointMass ? "p/1" : "p/q")); // a certain guess has q = 1
    body.append(...round.stops.map((stop) => row(trace, round, stop, stageOf(round, moments, at, stop))));
    body.querySelector(`[data-node="${moments[at].node}"]`)?.classList.add("is-selected");
    this.table.replaceChildren(top, body);
  }
}

// Nothing shows before it is known: a token when it is drafted, p when the target has seen it, u when
// it is compared.
function row(trace, round, stop, stage) {
  const isKnown = stage === "judged";
  const text = stage === "absent" ? "?" : tokenLabel(trace.text(round.tokenId(stop)));
  const values = stop === EXTRA ? [isKnown ? drawnProbability(round) : "", "", "", ""] : numbers(trace, round, stop, stage);
  const made = verdictRow(stop, text, values, isKnown ? outcomeOf(round, stop) : "");
  made.classList.toggle("is-later", !isKnown);
  return made;
}

// p, q, what the rule compares with u, and u.
function numbers(trace, round, stop, stage) {
  if (stage === "absent") return ["", "", "", ""];
  const { residual, p, q, accept, u, raw_p } = round.verdict(stop);
  const drafted = probability(round.shownQ(stop, trace.isGreedy));
  if (stage === "drafted") return ["", drafted, "", ""];
  const isJudged = stage === "judged";
  if (round.isTypical) return [probability(p), "–", isJudged ? (accept > 0 ? "enough" : "too low") : "", "–"];
  if (trace.isGreedy) return [probability(raw_p), drafted, isJudged ? (accept > 0 ? "1" : "0") : "", "–"];
  if (!isJudged) return [probability(p), drafted, "", ""];
  const compared = residual ?? p;
  const star = round.followsRejection(stop) ? "*" : "";
  return [`${probability(compared)}${star}`, drafted, ratio(compared / q), u === null ? "unseen" : probability(u)];
}

function ratio(value) {
  if (Number.isNaN(value)) return "–"; // 0 of 0
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
