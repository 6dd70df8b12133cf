// Why p comes out, in the numbers of one place: a token is a guess that was kept, or it is drawn from the
// residual after a rejection, and the two ways add up to p. Knows a plan of shared/redraw.js and no view.

import { tiny } from "./number_words.js";
import { residual, sharedOf } from "./redraw.js";

// The first guess decides: siblings after it draw from the same residual. `kept` is min(p, q) at the token,
// `rejected` how often the guess fails there, `residual` how often the token is drawn then. A guess that was
// picked counts as q = 1. Null where the rule is lossy, or the token has no bin of its own.
/**
 * @param {RedrawPlan} plan
 * @param {number} id of a token
 * @returns {{ kept: number, rejected: number, residual: number, sum: number, p: number, hasMore: boolean } | null} `hasMore`: guesses at the same place
 */
export function twoWays({ kind, ids, p, q, guesses, shared }, id) {
  const bin = ids.indexOf(id);
  if (bin < 0 || kind === "typical") return null;
  if (!guesses.length) return { kept: 0, rejected: 1, residual: p[bin], sum: p[bin], p: p[bin], hasMore: false };
  const isPicked = kind === "deterministic";
  const common = isPicked ? p.map((each, at) => (at === guesses[0].bin ? each : 0)) : sharedOf(p, q, shared);
  const rejected = Math.max(0, 1 - common.reduce((sum, each) => sum + each, 0));
  const left = residual(p, common)[bin];
  return { kept: common[bin], rejected, residual: left, sum: common[bin] + rejected * left, p: p[bin], hasMore: guesses.length > 1 };
}

// The token that a rejection of the first guess makes likeliest; null where none has a bin of its own.
/**
 * @param {RedrawPlan} plan
 * @returns {number | null}
 */
function likeliestThen(plan) {
  const left = (/** @type {number | null} */ id) => (id === null ? 0 : (twoWays(plan, id)?.residual ?? 0));
  const [best] = plan.ids.toSorted((one, other) => left(other) - left(one));
  return left(best ?? null) > 0 ? best : null;
}

// What the sum of a place is about: a token, or in place of a rejected guess, which has no part in the residual,
// the one that is likeliest then: which one comes is not drawn yet.
/**
 * @param {RedrawPlan} plan
 * @param {number} id
 * @param {boolean} isRejected
 * @returns {{ id: number, ways: ReturnType<typeof twoWays>, isOther: boolean }}
 */
export function waysAt(plan, id, isRejected) {
  const ways = twoWays(plan, id);
  const other = isRejected && ways?.residual === 0 ? likeliestThen(plan) : null;
  return other === null ? { id, ways, isOther: false } : { id: other, ways: twoWays(plan, other), isOther: true };
}

export const LIKELIEST = ", the likeliest in its place"; // behind the name of such a token

/**
 * @param {string} name
 * @param {NonNullable<ReturnType<typeof twoWays>>} ways
 * @param {boolean} isDrafted
 */
export function twoWaysWords(name, { kept, rejected, residual: left, sum, p, hasMore }, isDrafted) {
  if (!isDrafted) return `${name}: drawn from p itself, ${share(p)}.`;
  const [failed, rest] = hasMore ? ["first guess rejected", "residual after it"] : ["rejected", "residual"];
  return `${name}: kept ${share(kept)} + ${failed} ${share(rejected)} × ${rest} ${share(left)} = ${share(sum)} = p`;
}

// One decimal; two digits where that would say nothing.
/** @param {number} value */
export function share(value) {
  const hundredths = 100 * value;
  if (hundredths === 0 || hundredths >= 0.95) return `${Number(hundredths.toFixed(1))} %`;
  return `${hundredths >= 0.001 ? Number(hundredths.toPrecision(2)) : tiny(hundredths)} %`;
}
