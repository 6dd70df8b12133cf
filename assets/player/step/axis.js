// The units that the timeline can count: rounds, emitted tokens, target forwards, or milliseconds
// on the lane's own clock. This module maps a round to its position on the timeline and a position
// back to its round.

/** @type {Axis[]} */
export const AXES = [
  { name: "round", title: "round", end: (round, index) => index + 1, unit: "" },
  { name: "token", title: "token", end: (round) => round.endToken, unit: "" },
  // Target forward 1 reads the prompt, so the round with index 0 ends at target forward 2.
  { name: "forward", title: "target forward", end: (round, index) => index + 2, unit: "" },
  { name: "ms", title: "ms of its clock", end: (round) => round.clock * 1000, unit: " ms" },
];

// Return the position on the axis at which the first round begins.
/**
 * @param {Axis} axis
 * @param {Trace} trace
 */
export function originOf(axis, trace) {
  const first = trace.rounds[0];
  if (!first) return 0;
  /** @type {Record<string, number>} */
  const origins = {
    round: 0,
    token: first.firstToken,
    forward: 1,
    ms: (first.clock - first.seconds) * 1000,
  };
  return origins[axis.name];
}

// Return the index of the round that contains a position on the axis, or of the nearest round if
// the position is outside the run.
/**
 * @param {Axis} axis
 * @param {Trace} trace
 * @param {number} place
 */
export function roundAtPlace(axis, trace, place) {
  const { rounds } = trace;
  const at = rounds.findIndex((round, index) => axis.end(round, index) >= place - 1e-9);
  return at < 0 ? rounds.length - 1 : at;
}

// Return the last position on the axis, rounded as the page shows it.
/**
 * @param {Axis} axis
 * @param {Trace} trace
 */
export function lastPlace(axis, trace) {
  return Number.parseFloat(placeWords(axis, trace, trace.rounds.length - 1).whole);
}

/**
 * @param {Axis} axis
 * @param {Trace} trace
 * @param {number} index
 */
export function placeWords(axis, trace, index) {
  const end = axis.end(trace.rounds[index], index);
  const lastAt = trace.rounds.length - 1;
  const last = axis.end(trace.rounds[lastAt], lastAt);
  const shown = (/** @type {number} */ value) =>
    axis.name === "ms" ? value.toFixed(0) : String(value);
  return { here: shown(end), whole: `${shown(last)}${axis.unit}`, title: axis.title };
}
