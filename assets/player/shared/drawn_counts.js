// What the losslessness laboratory has drawn so far, shown: a place's tokens beside p, the distance falling with
// its noise floor, and what it means in words. Knows the server's `counts`, and not who asked for them.

import { cameOutRows, drawCurve, keyLine, percent } from "./came_out.js";
import { tokenLabel } from "./token_label.js";

const ROWS = 8; // of a chart
const LEAST_HEIGHT = 0.05; // of the distance at the top of the curve

/** @param {{ text: string, p: number, count: number }[]} counts */
export function drawnRows(counts) {
  const total = counts.reduce((sum, { count }) => sum + count, 0);
  const possible = counts.filter(({ p, count }, at) => p > 0 || count > 0 || at === counts.length - 1);
  const bars = possible.map(({ text, p, count }, at) => {
    const name = at === possible.length - 1 ? "all others" : tokenLabel(text);
    const share = total ? count / total : 0;
    const shares = /** @type {[string, number][]} */ ([["accepted", share]]);
    return { name, p, shares, came: total ? percent(share) : "" };
  });
  return cameOutRows(bars, ROWS);
}

// Through all counts of a series that is to have `goal` draws.
/**
 * @param {SVGElement} curve
 * @param {any[]} history
 * @param {number} goal
 */
export function drawDistance(curve, history, goal) {
  const most = Math.max(LEAST_HEIGHT, ...history.map(({ distance }) => Math.max(distance.total_variation, distance.noise_floor)));
  const points = history.map(({ draws, distance }) => ({ at: draws / goal, distance: distance.total_variation / most, floor: distance.noise_floor / most }));
  drawCurve(curve, points);
}

/**
 * @param {any} counts
 * @param {boolean} isDone
 * @param {boolean} isGreedy
 */
export function verdictWords({ draws, accepted, distance, is_other }, isDone, isGreedy) {
  const kept = `${draws.toLocaleString("en")} draws, ${Math.round((100 * accepted) / draws)} % of the guesses kept.`;
  if (isGreedy) return `${kept} At temperature 0 one token is certain, so there is nothing to count: either every text is the same, but for ties that rounding decides, or the rule is wrong.`;
  const numbers = `Distance ${distance.total_variation.toFixed(3)}, noise floor ${distance.noise_floor.toFixed(3)}.`;
  if (!isDone) return `${kept} ${numbers}`;
  if (distance.forbidden) return `${kept} ${numbers} Tokens came that the target never says. ${findingWords(true)}`;
  const p = distance.p_value < 0.001 ? "less than one in 1,000" : `${(100 * distance.p_value).toFixed(distance.p_value < 0.1 ? 1 : 0)} %`;
  const chance = `Chi-square ${distance.chi_square.toFixed(0)} with ${distance.degrees_of_freedom} degrees of freedom: draws from the target itself differ as much in ${p} of all cases.`;
  return `${kept} ${numbers} ${chance} ${findingWords(is_other)}`;
}

/** @param {boolean} isOther */
export function findingWords(isOther) {
  return isOther ? "This is another distribution." : "No difference from the target is to be seen.";
}

export function barsKey() {
  return keyLine([["i", "accepted", "came out"], ["b", "", "p, where it should end"]]);
}

export function curveKey() {
  return keyLine([["i", "line", "distance from p, over both tokens"], ["i", "line floor", "noise floor: exact draws"]]);
}
