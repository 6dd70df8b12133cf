// Paths of a draft tree: whom a node may look at, and which of its siblings were tried before it. Knows no
// page.

import { ROOT } from "../../shared/cursor.js";

// The rows of the forward that `row` may look at beside the text: the root, its ancestors, itself.
/**
 * @param {Round} round
 * @param {number} row
 * @returns {number[]}
 */
export function mayLook({ record }, row) {
  const { parent } = record.tree.nodes;
  const path = [];
  for (let at = row; at !== ROOT; at = parent[at]) path.unshift(at);
  return [ROOT, ...path];
}

// The siblings of a node that were rejected before its turn.
/**
 * @param {Round} round
 * @param {number} node
 */
export function triedBefore({ record, outcomes }, node) {
  const { parent } = record.tree.nodes;
  return outcomes.map((_, each) => each).filter((each) => each < node && parent[each] === parent[node] && outcomes[each] === "rejected");
}

// What a guess that was drawn from q is judged by once one sibling was rejected: its share of the residual, and
// how that comes about. Of `owed`, the sum of max(0, p - q) over all words, its own part is max(0, p - q).
/**
 * @param {Round} round
 * @param {number} node
 */
export function drawnSibling(round, node) {
  const { p, q, residual } = round.verdict(node);
  const beyond = Math.max(0, p - q);
  const isSecond = round.record.tree.kind === "iid" && triedBefore(round, node).length === 1;
  return { taken_q: q, taken_residual: residual ?? undefined, taken_beyond: beyond, owed: isSecond && residual ? beyond / residual : undefined };
}
