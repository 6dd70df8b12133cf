// Two distributions over a few tokens that the learner can change: the mass that they share, and
// the probability that a drafted token is accepted.

// Tokens by decreasing p; the last bar holds all other tokens together. `together` is the mass of
// these other tokens that p and q share, token by token.
/** @typedef {{ labels: (string | null)[], p: number[], q: number[], together: number }} Bars */

const SHOWN = 4; // number of tokens with a bar of their own
const SEEN = 0.001; // smallest probability that a bar can show

// Return the bars of a position. `plan` (see shared/redraw.js) has one bin for each recorded token
// and a last bin for all other tokens. The most probable tokens and the token of the bin `guess`
// have separate bars. One last bar holds all other tokens together.
/**
 * @param {RedrawPlan} plan
 * @param {number} guess
 * @returns {Bars & { guess: number }}
 */
export function barsOf({ ids, p, q, shared }, guess) {
  const words = ids.map((_, bin) => bin).slice(0, -1);
  const order = words
    .toSorted((a, b) => Math.max(p[b], q[b]) - Math.max(p[a], q[a]))
    .filter((bin) => bin !== guess);
  const shown = [guess, ...order.slice(0, SHOWN - 1)].sort((a, b) => p[b] - p[a]);
  const others = ids.map((_, bin) => bin).filter((bin) => !shown.includes(bin));
  const sum = (/** @type {number[]} */ values) =>
    others.reduce((total, bin) => total + values[bin], 0);
  const shownTogether = others.reduce(
    (total, bin) => total + (ids[bin] === null ? shared : Math.min(p[bin], q[bin])),
    0,
  );
  const least = Math.min(sum(p), sum(q));
  return {
    labels: [...shown.map((bin) => String(ids[bin])), null],
    p: [...shown.map((bin) => p[bin]), sum(p)],
    q: [...shown.map((bin) => q[bin]), sum(q)],
    together: least > 0 ? Math.min(1, shownTogether / least) : 1,
    guess: shown.indexOf(guess),
  };
}

// Return the mass that p and q share in a bar.
/**
 * @param {Bars} bars
 * @param {number} at
 */
export function common({ p, q, together }, at) {
  return Math.min(p[at], q[at]) * (at === p.length - 1 ? together : 1);
}

// Return the share of drafted tokens that are accepted, which is the sum of min(p, q).
/** @param {Bars} bars */
export function overlap(bars) {
  return bars.p.reduce((sum, _, at) => sum + common(bars, at), 0);
}

// Return for each bar by how much q exceeds p (`thrown`) and by how much p exceeds q (`owed`). Each
// list sums to 1 minus the overlap.
/** @param {Bars} bars */
export function beyond(bars) {
  const { p, q } = bars;
  const over = (/** @type {number[]} */ values) =>
    values.map((value, at) => Math.max(0, value - common(bars, at)));
  return { thrown: over(q), owed: over(p) };
}

// Return the index of the token whose p exceeds its q by the largest amount. Prefer tokens that the
// draft may propose.
/** @param {RedrawPlan} plan */
export function owedBin({ p, q }) {
  const owed = p.slice(0, -1).map((each, bin) => each - q[bin]);
  const guessed = owed.map((each, bin) => (q[bin] >= SEEN ? each : -1));
  const from = Math.max(...guessed) > 0 ? guessed : owed;
  return from.indexOf(Math.max(...from));
}

// Return the acceptance probability min(1, p/q), or 1 for q = 0, because such a token is never
// drafted.
/**
 * @param {number} p
 * @param {number} q
 */
export function acceptance(p, q) {
  return q > 0 ? Math.min(1, p / q) : 1;
}

// Return the distribution after one probability was changed. The other probabilities are scaled so
// that the sum stays 1.
/**
 * @param {number[]} probs
 * @param {number} at
 * @param {number} value
 */
export function changed(probs, at, value) {
  const others = 1 - probs[at];
  const left = 1 - value;
  const even = left / (probs.length - 1);
  return probs.map((each, bin) =>
    bin === at ? value : others > 1e-9 ? (each / others) * left : even,
  );
}
