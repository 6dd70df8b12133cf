// Two distributions over a few words that one can change: what they have in common, and the chance that a
// guess passes. Knows no page.

// Words by falling p, the last one all others together; `together`: of those, the part of the smaller that
// p and q have in common, which single tokens would show.
/** @typedef {{ labels: (string | null)[], p: number[], q: number[], together: number }} Bars */

const SHOWN = 4; // words of their own
const SEEN = 0.001; // a probability that a bar can show

// The bars of a position, from its plan to be drawn anew; `guess` always has a bar of its own.
/**
 * @param {RedrawPlan} plan
 * @param {number} guess
 * @returns {Bars & { guess: number }}
 */
export function barsOf({ ids, p, q, shared }, guess) {
  const words = ids.map((_, bin) => bin).slice(0, -1);
  const order = words.toSorted((a, b) => Math.max(p[b], q[b]) - Math.max(p[a], q[a])).filter((bin) => bin !== guess);
  const shown = [guess, ...order.slice(0, SHOWN - 1)].sort((a, b) => p[b] - p[a]);
  const others = ids.map((_, bin) => bin).filter((bin) => !shown.includes(bin));
  const sum = (/** @type {number[]} */ values) => others.reduce((total, bin) => total + values[bin], 0);
  const shownTogether = others.reduce((total, bin) => total + (ids[bin] === null ? shared : Math.min(p[bin], q[bin])), 0);
  const least = Math.min(sum(p), sum(q));
  return {
    labels: [...shown.map((bin) => String(ids[bin])), null],
    p: [...shown.map((bin) => p[bin]), sum(p)],
    q: [...shown.map((bin) => q[bin]), sum(q)],
    together: least > 0 ? Math.min(1, shownTogether / least) : 1,
    guess: shown.indexOf(guess),
  };
}

// What p and q have in common in a bar.
/**
 * @param {Bars} bars
 * @param {number} at
 */
export function common({ p, q, together }, at) {
  return Math.min(p[at], q[at]) * (at === p.length - 1 ? together : 1);
}

// The share of guesses that pass: the sum of min(p, q).
/** @param {Bars} bars */
export function overlap(bars) {
  return bars.p.reduce((sum, _, at) => sum + common(bars, at), 0);
}

// Of each bar what is thrown away, q beyond p, and what is owed, p beyond q: both sum to 1 less the overlap.
/** @param {Bars} bars */
export function beyond(bars) {
  const { p, q } = bars;
  const over = (/** @type {number[]} */ values) => values.map((value, at) => Math.max(0, value - common(bars, at)));
  return { thrown: over(q), owed: over(p) };
}

// The word that is missing most among guesses, one that the draft guesses at all if there is such a one: a bin
// of the plan.
/** @param {RedrawPlan} plan */
export function owedBin({ p, q }) {
  const owed = p.slice(0, -1).map((each, bin) => each - q[bin]);
  const guessed = owed.map((each, bin) => (q[bin] >= SEEN ? each : -1));
  const from = Math.max(...guessed) > 0 ? guessed : owed;
  return from.indexOf(Math.max(...from));
}

// The probability that a guess is kept: min(1, p/q). What the draft never says is never judged.
/**
 * @param {number} p
 * @param {number} q
 */
export function acceptance(p, q) {
  return q > 0 ? Math.min(1, p / q) : 1;
}

// The same distribution with one probability changed: the others share what is left as before.
/**
 * @param {number[]} probs
 * @param {number} at
 * @param {number} value
 */
export function changed(probs, at, value) {
  const others = 1 - probs[at];
  const left = 1 - value;
  const even = left / (probs.length - 1);
  return probs.map((each, bin) => (bin === at ? value : others > 1e-9 ? (each / others) * left : even));
}
