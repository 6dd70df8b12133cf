// What came out of many draws, beside the p that it should come to: the rows of a chart, its keys, and the
// curve of the distance above its noise floor. Knows not who drew.

import { element } from "./dom.js";

const FULL = 0.8; // of a track, for the largest p; the head says what its end is
const [WIDTH, HEIGHT] = [260, 120]; // of the curve
export const CURVE = `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" aria-hidden="true"><path class="ground" d="M0 0V${HEIGHT}H${WIDTH}"/><polyline class="floor"/><polyline class="distance"/></svg>`;

// A bar: its name, p, the shares that came out by outcome, and what is said of their sum.
/** @typedef {{ name: string, p: number, shares: [string, number][], came: string }} CameOut */

// With a head, and room for `room` of them. `isWide`: the track also has room for what came out, and so
// changes its end with the draws; else a bar that is too long ends in an arrow.
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
 * @param {number} end of the track
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
  made.append(element("span", "redraw-name", name), track, element("span", "number", came), element("span", "number goal", percent(p)));
  return made;
}

/** @param {[string, number][]} shares */
function sum(shares) {
  return shares.reduce((total, [, share]) => total + share, 0);
}

/** @param {number} end of the tracks */
function headRow(end) {
  const made = element("li", "hint");
  const ends = element("span", "redraw-ends");
  ends.append(element("span", "", "0"), element("span", "", percent(end)));
  made.append(element("span"), ends, element("span", "number", "came out"), element("span", "number", "p"));
  return made;
}

// Rows that hold the room of those to come.
/** @param {number} count */
export function blankRows(count) {
  return Array.from({ length: Math.max(0, count) }, () => {
    const made = element("li", "", "\u00a0");
    made.setAttribute("aria-hidden", "true");
    return made;
  });
}

/** @param {number} value */
export function percent(value) {
  return value > 0 && value < 0.0005 ? "< 0.1 %" : `${(100 * value).toFixed(1)} %`;
}

// Marks and their words; a mark is a tag and its classes.
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

// Both lines, through points from 0 to 1: the share of all draws, and the height.
/**
 * @param {SVGElement} curve
 * @param {{ at: number, distance: number, floor: number }[]} points
 */
export function drawCurve(curve, points) {
  for (const name of /** @type {("distance" | "floor")[]} */ (["distance", "floor"])) {
    const places = points.map((point) => `${(WIDTH * point.at).toFixed(1)},${(HEIGHT * (1 - point[name])).toFixed(1)}`);
    curve.querySelector(`.${name}`)?.setAttribute("points", places.join(" "));
  }
}
