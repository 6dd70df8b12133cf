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
    for (const name of ["examined", `${raw}p`, `${raw}q`, "p/q", "u", "verdict"]) head.append(element("th", "", name));
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
  const { p, residual, q, accept, u, raw_p, raw_q } = round.verdict(stop);
  if (round.isTypical) return [probability(p), "–", accept > 0 ? "enough" : "too low", "–"];
  if (trace.isGreedy) return [probability(raw_p), probability(raw_q), accept > 0 ? "1" : "0", "–"];
  const compared = residual ?? p;
  const star = Math.abs(compared - p) > 1e-6 ? "*" : "";
  const ratio = compared / q;
  return [`${probability(compared)}${star}`, probability(q), ratio >= 100 ? "> 99" : ratio.toFixed(2), u === null ? "unseen" : probability(u)];
}

// After a rejected sibling p is what was left of it: said once, for the row under the cursor.
export function residualNote(round, node) {
  const { p, residual } = node === null || node === EXTRA ? {} : round.verdict(node);
  if (residual === undefined || residual === null || Math.abs(residual - p) < 1e-6) return "";
  return `* after its sibling’s rejection p became the residual: ${probability(p)} → ${probability(residual)}`;
}
