// The moments of one round, in the order in which they happen: what a debugger steps through.
// Knows a round's record; knows no view.
//
// draft: one moment per level of the tree; verify: the target's one forward; judge: one per node
// that was examined; extra: the token that the target adds; commit: the cache is brought in order.

import { EXTRA } from "../shared/cursor.js";

export const PHASES = ["draft", "verify", "judge", "extra", "commit"];
/** @type {Record<string, string>} */
const PHASE_WORDS = { draft: "draft", verify: "verify", judge: "accept/reject", extra: "recover/bonus", commit: "commit" };
/** @type {Record<string, string>} */
const EXTRA_WORDS = { recovered: "recover", bonus: "bonus", plain: "plain token" };

// The name of a phase as far as a moment may tell: what the target adds has its own once it is drawn.
/**
 * @param {string} phase
 * @param {Round} round
 * @param {Moment[]} moments
 * @param {number} at
 */
export function phaseWord(phase, round, moments, at) {
  if (phase !== "extra" || (!isExtraKnown(round, moments, at) && round.outcomes.length)) return PHASE_WORDS[phase];
  return round.extraKind ? EXTRA_WORDS[round.extraKind] : "nothing added"; // the text ended
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

// Where a node of the round stands at a moment: absent, drafted, verified (the target has seen it),
// judged (its outcome then shows).
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
  return phase === "extra" || phase === "commit" ? "judged" : "verified"; // never examined
}

// What the strip of rounds may show of this round: the outcome of each level as far as it is judged, and the
// mark of the target's own token once it is drawn.
/**
 * @param {Round} round
 * @param {Moment[]} moments
 * @param {number} at
 */
export function knownColumn(round, moments, at) {
  const judged = round.outcomes.map((outcome, node) => (stageOf(round, moments, at, node) === "judged" ? outcome : "unreached"));
  const extraKind = isExtraKnown(round, moments, at) ? round.extraKind : undefined;
  return { levels: round.judgedLevels(judged), extraKind };
}

/** @typedef {{ levels: string[], drafted: number, unreached: number, undecided: number }} Judged what is known of a round: the outcomes of its levels, its drafted tokens, how many of them are sure never to be examined, and how many were rejected where a sibling may still pass */

// Of a round at a moment. What was never examined shows among the levels once it is over, and a rejection counts
// once no sibling is left that may still pass; until then its guess is one of `undecided`.
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
  if (phase === "commit") return { levels, drafted, unreached: unreachedIn(round), undecided: 0 };
  const open = moments.slice(at + 1).flatMap(({ phase: later, node }) => (later === "judge" && node !== null ? [depth[node] - 1] : []));
  const known = levels.filter((each, place) => each === "accepted" || (each === "rejected" && !open.includes(place)));
  const past = moments.slice(0, at + 1);
  const undecided = past.filter(({ phase: earlier, node }) => earlier === "judge" && node !== null && open.includes(depth[node] - 1)).length;
  return { levels: known, drafted, unreached: phase === "extra" ? unreachedIn(round) : givenUp(round, past), undecided };
}

// Of a round that is over.
/**
 * @param {Round} round
 * @returns {Judged}
 */
export function judgedWhole(round) {
  return { levels: round.levels, drafted: round.outcomes.length, unreached: unreachedIn(round), undecided: 0 };
}

/** @param {Round} round */
function unreachedIn({ outcomes }) {
  return outcomes.filter((outcome) => outcome === "unreached").length;
}

// Guesses below a rejected one, and beside or below the sibling of an accepted one: nothing leads to them any more.
/**
 * @param {Round} round
 * @param {Moment[]} past
 */
function givenUp(round, past) {
  const { parent } = round.record.tree.nodes;
  const judged = new Set(past.flatMap(({ phase, node }) => (phase === "judge" && node !== null ? [node] : [])));
  const passed = (/** @type {number} */ node) => judged.has(node) && round.outcomes[node] === "accepted";
  const isClosed = (/** @type {number} */ node) => round.indices.some((each) => each !== node && parent[each] === parent[node] && passed(each));
  const isLost = (/** @type {number} */ node) => node >= 0 && ((judged.has(node) && round.outcomes[node] === "rejected") || isClosed(node));
  const isOff = (/** @type {number} */ node) => {
    for (let each = node; each >= 0; each = parent[each]) if (isLost(each)) return true;
    return false;
  };
  return round.indices.filter((node) => !judged.has(node) && isOff(node)).length;
}

// The node whose distributions are shown: that of the moment, else the one that was judged last, else the first.
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

// Of a walk with another draw every moment is past: the whole of it shows.
/**
 * @param {Round} round
 * @param {number | null} node
 */
export function thoughtMoments(round, node) {
  const judged = round.stops.map((stop) => ({ phase: stop === EXTRA ? "extra" : "judge", node: stop }));
  return { moments: [...judged, { phase: "commit", node }], at: judged.length };
}
