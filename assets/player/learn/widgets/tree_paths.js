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
