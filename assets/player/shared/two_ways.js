// Why p comes out, in the numbers of one place: a token is a guess that was kept, or it is drawn from the
// residual after a rejection, and the two ways add up to p. Knows a plan of shared/redraw.js.

import { element } from "./dom.js";
import { percent, reckoned } from "./number_words.js";
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

// The sum in words, behind the token's name: in figures that add up as they are shown.
/**
 * @param {NonNullable<ReturnType<typeof twoWays>>} ways
 * @param {boolean} isDrafted
 */
export function twoWaysWords({ kept, rejected, residual: left, p, hasMore }, isDrafted) {
  const whole = percent(p);
  if (!isDrafted) return `drawn from p itself, ${whole}.`;
  const [failed, rest] = hasMore ? ["first guess rejected", "residual after it"] : ["rejected", "residual"];
  const shares = [kept, rejected, left];
  const exact = reckoned(shares, whole, ([own, lost, then]) => own + lost * then);
  const [first, second, third] = exact ?? shares.map((each) => percent(each));
  return `kept ${first} + ${failed} ${second} × ${rest} ${third} ${exact ? "=" : "≈"} ${whole} = p.`;
}

// Where the parts of the sum come from.
/** @param {NonNullable<ReturnType<typeof twoWays>>} ways */
export function partsWords({ hasMore }) {
  return ` Kept: the smaller of p and q of this token. Rejected: any ${hasMore ? "first guess" : "guess"} at this place, not this token.`;
}

// Both for an element.
/**
 * @param {string} name of the token
 * @param {string} which, behind it
 * @param {NonNullable<ReturnType<typeof twoWays>>} ways
 * @param {boolean} isDrafted
 */
export function twoWaysNodes(name, which, ways, isDrafted, hasParts = isDrafted) {
  const parts = hasParts ? [element("span", "hint", partsWords(ways))] : [];
  return [element("span", "token-chip", name), `${which}: ${twoWaysWords(ways, isDrafted)}`, ...parts];
}
