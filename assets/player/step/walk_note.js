// What the signs in the table of a walk mean, as far as the table shows them.

import { EXTRA } from "../shared/cursor.js";
import { probability } from "../shared/probability.js";
import { GREEDY_NOTE, pointMassNote } from "../shared/verdict_row.js";

export function walkNote(round, judged, node) {
  if (!round.outcomes.length) return "";
  if (round.isGreedy) return GREEDY_NOTE;
  return [pointMassNote(round), residualNote(round, judged, node), extraNote(round, judged)].filter(Boolean).join(" ");
}

// After a rejected sibling p is what was left of it: said once, for the row under the cursor.
function residualNote(round, judged, node) {
  const isStarred = judged.some((stop) => stop !== EXTRA && round.followsRejection(stop));
  if (!isStarred || round.isTypical) return "";
  const usual = "* after a sibling’s rejection p is what was left of it, the residual";
  if (!judged.includes(node) || node === EXTRA || !round.followsRejection(node)) return `${usual}.`;
  const { p, residual } = round.verdict(node);
  return residual === null ? `${usual}.` : `${usual}: here ${probability(p)} → ${probability(residual)}.`;
}

function extraNote(round, judged) {
  if (!judged.includes(EXTRA)) return "";
  if (round.extra.prob === null) return "?: unknown, for the record keeps of each law only the most probable tokens, and no law behind a node that was not examined.";
  return round.extraKind === "recovered" && !round.isTypical ? "r: the probability with which it was drawn from the residual." : "";
}
