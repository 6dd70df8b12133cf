// Which rows the table of a walk has at a moment: what was drafted by then, or what was examined by
// then and whose turn may come next. How the walk will end is told by no row.
// Knows a round and its moments; makes no element.

import { EXTRA } from "../shared/cursor.js";

const SHOWN = 10; // of those that are not judged

// { before, stops, after, isEnding }: how many stops were left out on either side, and whether the
// target's own token comes next.
export function walkRows(round, moments, at) {
  const { phase, level, node } = moments[at];
  if (phase === "draft") return around(drafted(round, level), node);
  if (phase === "verify") return around(round.indices, null);
  const judged = moments.slice(0, at + 1).filter(isExamined).map((each) => each.node);
  if (phase !== "judge") return { before: 0, stops: judged, after: 0, isEnding: false };
  const next = candidates(round, node);
  const shown = next.slice(0, SHOWN);
  const isEnding = !next.length && Boolean(round.extra);
  return { before: 0, stops: [...judged, ...shown], after: next.length - shown.length, isEnding };
}

function isExamined({ phase }) {
  return phase === "judge" || phase === "resample";
}

function drafted(round, level) {
  const { depth } = round.record.tree.nodes;
  return round.indices.filter((index) => depth[index] <= level);
}

// At most SHOWN of them, the one under the cursor always among them.
function around(nodes, selected) {
  const at = Math.max(0, nodes.indexOf(selected));
  const from = Math.max(0, Math.min(at, nodes.length - SHOWN));
  const stops = nodes.slice(from, from + SHOWN);
  return { before: from, stops, after: nodes.length - from - stops.length, isEnding: false };
}

// Whose turn comes after this verdict: the children of what was accepted, else the siblings left.
function candidates(round, node) {
  const { parent } = round.record.tree.nodes;
  if (round.outcomes[node] === "accepted") return round.indices.filter((each) => parent[each] === node);
  return round.indices.filter((each) => parent[each] === parent[node] && each > node);
}
