// Explains with the numbers of one position why the output follows p. There are two ways to a
// token: it is an accepted drafted token, or it is drawn from the residual after a rejection. The
// probabilities of the two ways add up to p. The input is a plan of shared/redraw.js.

import { element } from "./dom.js";
import { percent, reckoned } from "./number_words.js";
import { residual, sharedOf } from "./redraw.js";

// Return the probabilities of the two ways in which a token can be written. First, it can be
// drafted and accepted: `kept` is min(p, q) of the token. Second, the first drafted token can be
// rejected, with probability `rejected`, and the token is then drawn from the residual, with
// probability `residual`.
//
// If the drafter makes no random draw, its token counts as q = 1. Later siblings are not treated
// separately, because they would be examined against the same residual. Return null if the rule is
// lossy, or if the plan does not list this token separately but counts it among all other tokens.
/**
 * @param {RedrawPlan} plan
 * @param {number} id the id of a token
 * @returns {{ kept: number, rejected: number, residual: number, sum: number, p: number, hasMore: boolean } | null} `hasMore` is true if there are several guesses at this position
 */
export function twoWays({ drawing, rule, ids, p, q, guesses, shared }, id) {
  const bin = ids.indexOf(id);
  if (bin < 0 || rule === "typical") return null;
  if (!guesses.length)
    return { kept: 0, rejected: 1, residual: p[bin], sum: p[bin], p: p[bin], hasMore: false };
  const isPicked = drawing === "chosen";
  const common = isPicked
    ? p.map((each, at) => (at === guesses[0].bin ? each : 0))
    : sharedOf(p, q, shared);
  const rejected = Math.max(0, 1 - common.reduce((sum, each) => sum + each, 0));
  const left = residual(p, common)[bin];
  return {
    kept: common[bin],
    rejected,
    residual: left,
    sum: common[bin] + rejected * left,
    p: p[bin],
    hasMore: guesses.length > 1,
  };
}

// Return the token that is drawn most probably after a rejection of the first drafted token. Return
// null if the plan does not list that token separately.
/**
 * @param {RedrawPlan} plan
 * @returns {number | null}
 */
function likeliestThen(plan) {
  const left = (/** @type {number | null} */ id) =>
    id === null ? 0 : (twoWays(plan, id)?.residual ?? 0);
  const [best] = plan.ids.toSorted((one, other) => left(other) - left(one));
  return left(best ?? null) > 0 ? best : null;
}

// Return the token for which the card shows that the probabilities of the two ways add up to p. If
// the drafted token was rejected, its probability in the residual is 0, so the residual's most
// probable token is shown instead. The token that really replaces it is not known at that moment.
/**
 * @param {RedrawPlan} plan
 * @param {number} id
 * @param {boolean} isRejected
 * @returns {{ id: number, ways: ReturnType<typeof twoWays>, isOther: boolean }}
 */
export function waysAt(plan, id, isRejected) {
  const ways = twoWays(plan, id);
  const other = isRejected && ways?.residual === 0 ? likeliestThen(plan) : null;
  return other === null
    ? { id, ways, isOther: false }
    : { id: other, ways: twoWays(plan, other), isOther: true };
}

export const LIKELIEST = ", the most probable replacement"; // words after the name of a token that replaces a rejected one

// Write the sum of both ways, which follows the token's name. It has enough figures that the shown
// numbers add up.
/**
 * @param {NonNullable<ReturnType<typeof twoWays>>} ways
 * @param {boolean} isDrafted
 */
export function twoWaysWords({ kept, rejected, residual: left, p, hasMore }, isDrafted) {
  const whole = percent(p);
  if (!isDrafted) return `drawn from p itself, ${whole}.`;
  const [failed, rest] = hasMore
    ? ["first guess rejected", "residual after it"]
    : ["rejected", "residual"];
  const shares = [kept, rejected, left];
  const exact = reckoned(shares, whole, ([own, lost, then]) => own + lost * then);
  const [first, second, third] = exact ?? shares.map((each) => percent(each));
  return `kept ${first} + ${failed} ${second} × ${rest} ${third} ${exact ? "=" : "≈"} ${whole} = p.`;
}

// Explain where the parts of the sum come from.
/** @param {NonNullable<ReturnType<typeof twoWays>>} ways */
export function partsWords({ hasMore }) {
  return ` Kept: the smaller of p and q of this token. Rejected: any ${hasMore ? "first guess" : "guess"} at this position, not this token.`;
}

// Return the sum and the explanation as nodes for an element.
/**
 * @param {string} name the name of the token
 * @param {string} which words that follow the name
 * @param {NonNullable<ReturnType<typeof twoWays>>} ways
 * @param {boolean} isDrafted
 */
export function twoWaysNodes(name, which, ways, isDrafted, hasParts = isDrafted) {
  const parts = hasParts ? [element("span", "hint", partsWords(ways))] : [];
  return [
    element("span", "token-chip", name),
    `${which}: ${twoWaysWords(ways, isDrafted)}`,
    ...parts,
  ];
}
