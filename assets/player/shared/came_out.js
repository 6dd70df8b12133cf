// Shows the result of many random draws next to the distribution p that they should follow: the
// rows of a bar chart, its legend, and a curve of the distance from p together with its noise
// floor. It is independent of how the draws were made.

import { element } from "./dom.js";
import { percent } from "./number_words.js";

const FULL = 0.8; // share of a bar's track that the largest p covers; the header row says which probability the end of the track is
const [WIDTH, HEIGHT] = [260, 120]; // width and height of the curve, in pixels
export const CURVE = `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true"><path class="ground" d="M0 0V${HEIGHT}H${WIDTH}"/><polyline class="floor"/><polyline class="distance"/></svg>`;

// A row of the chart: the name of a token, its p, and its shares of all draws in numbers and in
// words. `shares` has a share for each outcome with which the token was drawn, and `came` is their
// sum in words.
/** @typedef {{ name: string, p: number, shares: [string, number][], came: string }} CameOut */

// Return the rows of the bar chart: the header, one row for each token, and empty rows until there
// are `room` rows for tokens. If `isWide`, the scale of the bars extends to the largest drawn
// share, so its end changes with every draw. Otherwise a bar that is too long for the scale ends in
// an arrow.
/**
 * @param {CameOut[]} bars
 * @param {number} room
 */
export function cameOutRows(bars, room, isWide = false) {
  const most = Math.max(0.01, ...bars.map(({ p }) => p));
  const came = isWide ? Math.max(...bars.map(({ shares }) => sum(shares))) : 0;
  const end = Math.min(1, Math.max(most / FULL, came));
  return [headRow(end), ...bars.map((bar) => row(bar, end)), ...blankRows(room - bars.length)];
}

/**
 * @param {CameOut} bar
 * @param {number} end the probability at the end of the track
 */
function row({ name, p, shares, came }, end) {
  const made = element("li");
  const track = element("span", sum(shares) > end ? "redraw-track is-beyond" : "redraw-track");
  const width = (/** @type {number} */ share) => `${Math.min(100, (100 * share) / end)}%`;
  for (const [outcome, share] of shares) {
    const bar = element("i", outcome);
    bar.style.width = width(share);
    track.append(bar);
  }
  const goal = element("b");
  goal.style.left = width(p);
  track.append(goal);
  made.append(
    element("span", "redraw-name", name),
    track,
    element("span", "number", came),
    element("span", "number goal", percent(p)),
  );
  return made;
}

/** @param {[string, number][]} shares */
function sum(shares) {
  return shares.reduce((total, [, share]) => total + share, 0);
}

/** @param {number} end the probability at the end of the tracks */
function headRow(end) {
  const made = element("li", "hint");
  const ends = element("span", "redraw-ends");
  ends.append(element("span", "", "0"), element("span", "", drawnShare(end)));
  made.append(
    element("span"),
    ends,
    element("span", "number", "drawn"),
    element("span", "number", "p"),
  );
  return made;
}

// Return empty rows that reserve the height of later rows.
/** @param {number} count */
export function blankRows(count) {
  return Array.from({ length: Math.max(0, count) }, () => {
    const made = element("li", "", "\u00a0");
    made.setAttribute("aria-hidden", "true");
    return made;
  });
}

// Write the share of draws that had one result. `percent` of number_words.js writes probabilities
// instead.
/** @param {number} value */
export function drawnShare(value) {
  return value > 0 && value < 0.0005 ? "< 0.1 %" : `${(100 * value).toFixed(1)} %`;
}

// Return a legend. Each entry is the tag of a mark, its CSS classes and its words.
/** @param {["i" | "b", string, string][]} entries */
export function keyLine(entries) {
  const key = element("p", "redraw-key hint");
  for (const [tag, classes, words] of entries) {
    const made = element("span");
    made.append(element(tag, classes), words);
    key.append(made);
  }
  return key;
}

// Draw the two lines "distance" and "floor". All numbers of a point are from 0 to 1: `at` is the
// share of all draws that had been made at this point, and `distance` and `floor` are the heights
// of the lines.
/**
 * @param {SVGElement} curve
 * @param {{ at: number, distance: number, floor: number }[]} points
 */
export function drawCurve(curve, points) {
  for (const name of /** @type {("distance" | "floor")[]} */ (["distance", "floor"])) {
    const places = points.map(
      (point) => `${(WIDTH * point.at).toFixed(1)},${(HEIGHT * (1 - point[name])).toFixed(1)}`,
    );
    curve.querySelector(`.${name}`)?.setAttribute("points", places.join(" "));
  }
}
