// Shows the draws of a losslessness test so far: the tokens of one position next to p, the
// decreasing distance from p with its noise floor, and the conclusion in words. It reads the
// server's `counts` and is independent of the page.

import { cameOutRows, drawCurve, drawnShare, keyLine } from "./came_out.js";
import { tokenLabel } from "./token_label.js";

const ROWS = 8; // rows of the bar chart
const UNDECIDED = 0.05; // smallest p-value with which chance explains the draws well enough
const LEAST_HEIGHT = 0.05; // smallest value at the top of the curve

/** @param {{ text: string, p: number, count: number }[]} counts */
export function drawnRows(counts) {
  const total = counts.reduce((sum, { count }) => sum + count, 0);
  const possible = counts.filter(
    ({ p, count }, at) => p > 0 || count > 0 || at === counts.length - 1,
  );
  const bars = possible.map(({ text, p, count }, at) => {
    const name = at === possible.length - 1 ? "all others" : tokenLabel(text);
    const share = total ? count / total : 0;
    const shares = /** @type {[string, number][]} */ ([["accepted", share]]);
    return { name, p, shares, came: total ? drawnShare(share) : "" };
  });
  return cameOutRows(bars, ROWS, true);
}

// Draw the distance after each part of a series that ends at `goal` draws.
/**
 * @param {SVGElement} curve
 * @param {any[]} history
 * @param {number} goal
 */
export function drawDistance(curve, history, goal) {
  const most = Math.max(
    LEAST_HEIGHT,
    ...history.map(({ distance }) => Math.max(distance.total_variation, distance.noise_floor)),
  );
  const points = history.map(({ draws, distance }) => ({
    at: draws / goal,
    distance: distance.total_variation / most,
    floor: distance.noise_floor / most,
  }));
  drawCurve(curve, points);
}

/**
 * @param {any} counts
 * @param {boolean} isDone
 * @param {boolean} isGreedy
 */
export function verdictWords(counts, isDone, isGreedy) {
  const { draws, accepted, distance } = counts;
  const kept = `${draws.toLocaleString("en")} draws, ${Math.round((100 * accepted) / draws)} % of the guesses kept.`;
  if (isGreedy)
    return `${kept} At temperature 0 one token is certain, so there is nothing to count. Either all texts are the same, except for ties that rounding decides, or the rule is wrong.`;
  const numbers = `Distance ${distance.total_variation.toFixed(3)}, noise floor ${distance.noise_floor.toFixed(3)}.`;
  if (!isDone) return `${kept} ${numbers}`;
  if (distance.forbidden)
    return `${kept} ${numbers} Some of the drawn tokens have probability 0 in the target. ${FINDINGS.other}`;
  const p =
    distance.p_value < 0.001
      ? "less than one in 1,000"
      : `${(100 * distance.p_value).toFixed(distance.p_value < 0.1 ? 1 : 0)} %`;
  const chance = `The sum of all squared differences is ${distance.chi_square.toFixed(0)} (chi-square). Draws from the target itself give about ${distance.degrees_of_freedom} (the degrees of freedom), and at least as much as here in ${p} of all series.`;
  return `${kept} ${numbers} ${chance} ${findingWords(counts)}`;
}

// Return what the draws show: "other" (the distributions differ), "undecided", or "none" (no
// visible difference).
/**
 * @param {any} counts
 * @returns {keyof typeof FINDINGS}
 */
export function finding({ distance, is_other: isOther }) {
  if (isOther) return "other";
  return distance.p_value < UNDECIDED ? "undecided" : "none";
}

const FINDINGS = {
  other: "This is another distribution.",
  undecided:
    "That is not decided: exact draws do so now and then, and so does a rule that is a little wrong. More draws tell.",
  none: "No difference from the target is visible in this number of draws.",
};

/** @param {any} counts */
export function findingWords(counts) {
  return FINDINGS[finding(counts)];
}

// Return the CSS class that gives a finding its colour.
/** @param {any} counts */
export function findingClass(counts) {
  return { other: " rejected", undecided: "", none: " accepted" }[finding(counts)];
}

export function barsKey() {
  return keyLine([
    ["i", "accepted", "drawn"],
    ["b", "", "p, at which it should end"],
  ]);
}

export function curveKey() {
  return keyLine([
    ["i", "line", "distance from p, over both tokens"],
    ["i", "line floor", "noise floor: exact draws"],
  ]);
}
