// The speedup up to a moment of a replay, read from the curve of the whole run. What it is, and which points the
// curve has, says specviz/metrics/speedup_curve.py.

const OF_THE_WHOLE = "grey: theory, of the whole run"; // short enough for a phone
const TOLERANCE = 1e-9; // of clocks that were added up in another order

/** @typedef {{ tokens: number, speedup: number | null }} SpeedupSoFar over the first `tokens` tokens, which both lanes had */

// The figure as it was at `moment`, on the axes of the whole run: a point is there once both lanes have its tokens.
/**
 * @param {Figure} figure
 * @param {number} moment of the lanes' own time, in seconds
 * @returns {Figure}
 */
export function curveUntil(figure, moment) {
  const line = lineOf(figure);
  const { x, y, customdata } = figure.data[line];
  const count = lastAt(figure.data[line], moment) + 1;
  const [xs, ys, seconds] = [x, y, customdata].map((values) => values.slice(0, count));
  const data = [...figure.data];
  data[line] = { ...data[line], x: xs, y: ys, customdata: seconds };
  data[line + 1] = { ...data[line + 1], x: xs.slice(-1), y: ys.slice(-1) }; // the dot at its end
  const { annotations = [] } = figure.layout;
  const [theory, ...others] = annotations; // which knows the whole run
  const told = theory?.text ? [{ ...theory, text: OF_THE_WHOLE }, ...others] : annotations;
  return { ...figure, data, layout: { ...figure.layout, annotations: told } };
}

// Where the curve as it was at `moment` ends.
/**
 * @param {Figure} figure
 * @param {number} moment
 * @returns {SpeedupSoFar}
 */
export function speedupAt(figure, moment) {
  const line = figure.data[lineOf(figure)];
  const at = lastAt(line, moment);
  return { tokens: line.x[at] ?? 0, speedup: line.y[at] ?? null };
}

/**
 * @param {{ y: number[], customdata: number[] }} line
 * @param {number} moment
 */
function lastAt({ y, customdata }, moment) {
  return customdata.findLastIndex((seconds, at) => Math.max(seconds, y[at] * seconds) <= moment + TOLERANCE);
}

/** @param {Figure} figure */
function lineOf({ data }) {
  return data.findIndex(({ customdata }) => customdata);
}
