// Paths in a draft tree: which tokens a node may attend to, and which siblings were examined before
// it.

import { ROOT } from "../../shared/cursor.js";

// Return the nodes of the forward that a node may attend to, besides the text: the root, its
// ancestors and itself.
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

// Return the siblings of a node that were rejected before it.
/**
 * @param {Round} round
 * @param {number} node
 */
export function triedBefore({ record, outcomes }, node) {
  const { parent } = record.tree.nodes;
  return outcomes
    .map((_, each) => each)
    .filter(
      (each) => each < node && parent[each] === parent[node] && outcomes[each] === "rejected",
    );
}

// Return how a token was judged after one rejected sibling: its probability in the residual, and
// the two numbers from which this probability is computed. `taken_beyond` is the token's max(0, p -
// q). `owed` is the sum of max(0, p - q) over all tokens.
/**
 * @param {Round} round
 * @param {number} node
 */
export function drawnSibling(round, node) {
  const { p, q, residual } = round.verdict(node);
  const beyond = Math.max(0, p - q);
  const isSecond =
    round.record.tree.drawing === "independent" && triedBefore(round, node).length === 1;
  return {
    taken_q: q,
    taken_residual: residual ?? undefined,
    taken_beyond: beyond,
    owed: isSecond && residual ? beyond / residual : undefined,
  };
}
