// What the timeline counts: rounds, emitted tokens, target forwards, or milliseconds of the lane's own
// clock. Gives each round its place, and finds the round at a place.

/** @type {Axis[]} */
export const AXES = [
  { name: "round", title: "round", end: (round, index) => index + 1, unit: "" },
  { name: "token", title: "token", end: (round) => round.endToken, unit: "" },
  { name: "forward", title: "target forward", end: (round, index) => index + 2, unit: "" }, // the prompt's is the first
  { name: "ms", title: "ms of its clock", end: (round) => round.clock * 1000, unit: " ms" },
];

// Where the first round begins.
/**
 * @param {Axis} axis
 * @param {Trace} trace
 */
export function originOf(axis, trace) {
  const first = trace.rounds[0];
  if (!first) return 0;
  /** @type {Record<string, number>} */
  const origins = { round: 0, token: first.firstToken, forward: 1, ms: (first.clock - first.seconds) * 1000 };
  return origins[axis.name];
}

// The index of the round that holds a place on the axis, the nearest one where none does.
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

// The last one that there is, as it is shown.
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
  const shown = (/** @type {number} */ value) => (axis.name === "ms" ? value.toFixed(0) : String(value));
  return { here: shown(end), whole: `${shown(last)}${axis.unit}`, title: axis.title };
}
