// The speedup up to a moment of a replay, read from the speedup curve of the whole run.
// specviz/metrics/speedup_curve.py defines the curve and its points.

const OF_THE_WHOLE = "grey: explained, of the whole run"; // a short label, so that it fits on a phone
const TOLERANCE = 1e-9; // seconds; clocks differ by rounding if times are added in another order

/** @typedef {{ tokens: number, speedup: number | null, limit: string }} SpeedupSoFar `tokens` counts the speculative lane's tokens; `limit` is the speedup that its forwards allow if the measured one exceeds it, otherwise "" */

// Return the chart with the part of the curve up to `moment`. The axes are those of the whole run.
/**
 * @param {Figure} figure
 * @param {number} moment seconds on the lanes' own clocks
 * @returns {Figure}
 */
export function curveUntil(figure, moment) {
  const line = lineOf(figure);
  const { x, y, customdata } = figure.data[line];
  const count = lastAt(figure.data[line], moment) + 1;
  const [xs, ys, tokens] = [x, y, customdata].map((values) => values.slice(0, count));
  const data = [...figure.data];
  data[line] = { ...data[line], x: xs, y: ys, customdata: tokens };
  data[line + 1] = { ...data[line + 1], x: xs.slice(-1), y: ys.slice(-1) }; // the dot at the end of the curve
  const { annotations = [] } = figure.layout;
  const [theory, ...others] = annotations; // the first annotation explains the whole run
  const labels = theory?.text ? [{ ...theory, text: OF_THE_WHOLE }, ...others] : annotations;
  return { ...figure, data, layout: { ...figure.layout, annotations: labels } };
}

// Return the last point of the curve that is not later than `moment`.
/**
 * @param {Figure} figure
 * @param {number} moment
 * @returns {SpeedupSoFar}
 */
export function speedupAt(figure, moment) {
  const line = figure.data[lineOf(figure)];
  const at = lastAt(line, moment);
  return {
    tokens: line.customdata[at] ?? 0,
    speedup: line.y[at] ?? null,
    limit: line.hovertext?.[at] ?? "",
  };
}

/**
 * @param {{ x: number[] }} line
 * @param {number} moment
 */
function lastAt({ x }, moment) {
  return x.findLastIndex((seconds) => seconds <= moment + TOLERANCE);
}

/** @param {Figure} figure */
function lineOf({ data }) {
  return data.findIndex(({ customdata }) => customdata);
}
