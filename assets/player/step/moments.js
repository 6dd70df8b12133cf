// The moments of one round in the order in which they happen. The debugger steps through them. This
// module uses only the record of the round.
//
// draft: one moment per level of the tree; verify: one forward of the target; judge: one moment per
// examined node; extra: the token that the target adds; commit: the cache drops the rejected slots.

import { EXTRA } from "../shared/cursor.js";

export const PHASES = ["draft", "verify", "judge", "extra", "commit"];
/** @type {Record<string, string>} */
const PHASE_WORDS = {
  draft: "draft",
  verify: "verify",
  judge: "accept/reject",
  extra: "recover/bonus",
  commit: "commit",
};
/** @type {Record<string, string>} */
const EXTRA_WORDS = { recovered: "recover", bonus: "bonus", plain: "target alone" };

// Return the name of a phase. The phase of the target's own token has a general name until the
// token is drawn, because the name would give away the outcome.
/**
 * @param {string} phase
 * @param {Round} round
 * @param {Moment[]} moments
 * @param {number} at
 */
export function phaseWord(phase, round, moments, at) {
  if (phase !== "extra" || (!isExtraKnown(round, moments, at) && round.outcomes.length))
    return PHASE_WORDS[phase];
  return round.extraKind ? EXTRA_WORDS[round.extraKind] : "nothing added"; // the text ended before the target added a token
}

/**
 * @param {Round} round
 * @param {Moment[]} moments
 * @param {number} at
 */
export function isExtraKnown(round, moments, at) {
  return stageOf(round, moments, at, EXTRA) === "judged" || moments[at].phase === "commit";
}

/** @param {Round} round */
export function momentsOf(round) {
  const { depth } = round.record.tree.nodes;
  const levels = Math.max(0, ...depth);
  /** @type {Moment[]} */
  const moments = [];
  for (let level = 1; level <= levels; level += 1) {
    moments.push({ phase: "draft", level, node: depth.indexOf(level) });
  }
  if (!levels) moments.push({ phase: "draft", level: 0, node: null });
  moments.push({ phase: "verify", node: null });
  for (const node of round.stops) {
    moments.push({ phase: node === EXTRA ? "extra" : "judge", node });
  }
  moments.push({ phase: "commit", node: null });
  return moments;
}

// Return the stage of a node at a moment: "absent", "drafted", "verified" (the target has run on
// it) or "judged" (its outcome is visible).
/**
 * @param {Round} round
 * @param {Moment[]} moments
 * @param {number} at
 * @param {number} node
 */
export function stageOf(round, moments, at, node) {
  const { phase, level = 0 } = moments[at];
  if (phase === "draft" && node !== EXTRA) {
    return round.record.tree.nodes.depth[node] <= level ? "drafted" : "absent";
  }
  const own = moments.findIndex((each) => each.node === node && each.phase !== "draft");
  if (node === EXTRA) return own >= 0 && own <= at ? "judged" : "absent";
  if (own >= 0) return own <= at ? "judged" : "verified";
  return phase === "extra" || phase === "commit" ? "judged" : "verified"; // the node was never examined
}

// Return what the strip of rounds may show of this round: the outcome of each level that is judged
// so far, and the mark of the target's own token once it is drawn.
/**
 * @param {Round} round
 * @param {Moment[]} moments
 * @param {number} at
 */
export function knownColumn(round, moments, at) {
  const judged = round.outcomes.map((outcome, node) =>
    stageOf(round, moments, at, node) === "judged" ? outcome : "unreached",
  );
  const extraKind = isExtraKnown(round, moments, at) ? round.extraKind : undefined;
  return { levels: round.judgedLevels(judged), extraKind };
}

/** @typedef {{ levels: string[], drafted: number, unreached: number, undecided: number, behind?: number }} Judged what is known of a round: the outcomes of its levels, the number of drafted tokens, how many of them can no longer be examined, how many were rejected although a sibling may still be accepted, and how many were rejected after a rejected level, as in a block, and do not count */

// Return what is known of a round at a moment. Tokens that were never examined appear among the
// levels only at the end of the round. A level is rejected once none of its siblings can be
// accepted any more. Until then it is neither accepted nor rejected, and its token counts as
// `undecided`.
/**
 * @param {Round} round
 * @param {Moment[]} moments
 * @param {number} at
 * @returns {Judged}
 */
export function judgedSoFar(round, moments, at) {
  const { phase, level = 0 } = moments[at];
  const { depth } = round.record.tree.nodes;
  const { levels } = knownColumn(round, moments, at);
  const drafted = phase === "draft" ? depth.filter((each) => each <= level).length : depth.length;
  if (phase === "commit")
    return { ...counted(levels), drafted, unreached: unreachedIn(round), undecided: 0 };
  const open = moments
    .slice(at + 1)
    .flatMap(({ phase: later, node }) =>
      later === "judge" && node !== null ? [depth[node] - 1] : [],
    );
  const known = levels.filter(
    (each, place) => each === "accepted" || (each === "rejected" && !open.includes(place)),
  );
  const past = moments.slice(0, at + 1);
  const undecided = past.filter(
    ({ phase: earlier, node }) =>
      earlier === "judge" && node !== null && open.includes(depth[node] - 1),
  ).length;
  return {
    ...counted(known),
    drafted,
    unreached: phase === "extra" ? unreachedIn(round) : givenUp(round, past),
    undecided,
  };
}

// Return what is known of a round after its last moment.
/**
 * @param {Round} round
 * @returns {Judged}
 */
export function judgedWhole(round) {
  return {
    ...counted(round.levels),
    drafted: round.outcomes.length,
    unreached: unreachedIn(round),
    undecided: 0,
  };
}

// Return the levels that count for the rates (`levels`), and the number of rejected levels that do
// not count (`behind`). Of the rejected levels, only the first counts. A rule that judges whole paths reads
// the later ones as well, but the draft fails only once.
/** @param {string[]} levels */
function counted(levels) {
  const first = levels.indexOf("rejected");
  const isBehind = (/** @type {string} */ outcome, /** @type {number} */ at) =>
    outcome === "rejected" && at > first;
  const kept = levels.filter((outcome, at) => !isBehind(outcome, at));
  return { levels: kept, behind: levels.length - kept.length };
}

/** @param {Round} round */
function unreachedIn({ outcomes }) {
  return outcomes.filter((outcome) => outcome === "unreached").length;
}

// Count the drafted tokens that can no longer be examined: those below a rejected token, and the
// siblings of an accepted token with everything below them.
/**
 * @param {Round} round
 * @param {Moment[]} past
 */
function givenUp(round, past) {
  const { parent } = round.record.tree.nodes;
  const judged = new Set(
    past.flatMap(({ phase, node }) => (phase === "judge" && node !== null ? [node] : [])),
  );
  const passed = (/** @type {number} */ node) =>
    judged.has(node) && round.outcomes[node] === "accepted";
  if (round.isJoint) return round.accepted.some(passed) ? unreachedIn(round) : 0;
  const isClosed = (/** @type {number} */ node) =>
    round.indices.some((each) => each !== node && parent[each] === parent[node] && passed(each));
  const isLost = (/** @type {number} */ node) =>
    node >= 0 && ((judged.has(node) && round.outcomes[node] === "rejected") || isClosed(node));
  const isOff = (/** @type {number} */ node) => {
    for (let each = node; each >= 0; each = parent[each]) if (isLost(each)) return true;
    return false;
  };
  return round.indices.filter((node) => !judged.has(node) && isOff(node)).length;
}

// Return the node whose distributions are shown at a moment. It is the node that this moment
// judges, otherwise the node that was judged last. Before any verdict it is the node that will be
// judged first.
/**
 * @param {Moment[]} moments
 * @param {number} at
 */
export function standing(moments, at) {
  const isOf = (/** @type {Moment} */ { phase }) => phase === "judge" || phase === "extra";
  if (isOf(moments[at])) return moments[at].node;
  const before = moments.slice(0, at).findLast(isOf);
  return (before ?? moments.find(isOf))?.node ?? null;
}

// Return the moments of a round with a changed draw. All of them are in the past, so that the whole
// walk is visible.
/**
 * @param {Round} round
 * @param {number | null} node
 */
export function thoughtMoments(round, node) {
  const judged = round.stops.map((stop) => ({
    phase: stop === EXTRA ? "extra" : "judge",
    node: stop,
  }));
  return { moments: [...judged, { phase: "commit", node }], at: judged.length };
}
