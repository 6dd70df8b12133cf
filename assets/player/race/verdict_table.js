// The walk of one round as a table: what was examined, in order, and what decided it.
// Knows a round; a row selects its stop.

import { EXTRA } from "../shared/cursor.js";
import { element } from "../shared/dom.js";
import { probability } from "../shared/probability.js";
import { tokenLabel } from "../shared/tooltip.js";
import { extraNumbers, GREEDY_RULE, outcomeOf, verdictHead, verdictRow } from "../shared/verdict_row.js";

export class VerdictTable {
  constructor(table, { onSelect }) {
    this.table = table;
    this.rows = new Map();
    table.addEventListener("click", (event) => {
      const row = event.target.closest("tr[data-node]");
      if (row) onSelect(Number(row.dataset.node));
    });
  }

  clear() {
    this.table.replaceChildren();
    this.rows.clear();
  }

  // Whether a row compared a residual, which the star explains.
  get hasResidual() {
    return [...this.table.querySelectorAll(".number")].some((cell) => cell.textContent.endsWith("*"));
  }

  draw(trace, round, node) {
    this.rows = new Map(round.stops.map((stop) => [stop, row(trace, round, stop)]));
    this.rows.get(node)?.classList.add("is-selected");
    const [top, body] = [element("thead"), element("tbody")];
    top.append(verdictHead(round.isGreedy, ruleOf(round)));
    body.append(...this.rows.values());
    this.table.replaceChildren(top, body);
  }
}

function ruleOf(round) {
  if (round.isTypical) return "p enough?";
  return round.isGreedy ? GREEDY_RULE : "accept if u <";
}

function row(trace, round, stop) {
  const values = stop === EXTRA ? extraNumbers(round) : numbers(round, stop);
  return verdictRow(stop, tokenLabel(trace.text(round.tokenId(stop))), values, outcomeOf(round, stop));
}

function numbers(round, stop) {
  const verdict = round.verdict(stop);
  const { p, accept, u } = verdict;
  const residual = verdict.residual ?? p; // null where whoever recorded the run could not see it
  const compared = round.isGreedy ? verdict.raw_p : residual;
  const drafted = probability(round.shownQ(stop));
  const passes = accept > 0 ? "yes" : "no";
  if (round.isTypical || round.isGreedy) return [probability(compared), drafted, passes, "–"];
  const star = round.followsRejection(stop) ? "*" : "";
  return [`${probability(compared)}${star}`, drafted, probability(accept), probability(u)];
}
