// The row of one stop in a table of a round's walk, and the mark of each verdict. All such tables
// use this module.

import { EXTRA } from "./cursor.js";
import { element } from "./dom.js";
import { lookOf } from "./outcomes.js";
import { compared, decimals, drawn, inProportion, percent } from "./number_words.js";

// The threshold for u as a formula. All tables use this text.
export const RULE = "min(1,\u00a0p/q)";
// The threshold of a token that was drafted without a random draw, so that q counts as 1.
export const PICKED_RULE = "min(1,\u00a0p/1)";
// The threshold of a rule that judges whole paths: the chance that the path up to this token
// passes.
const JOINT_RULE = "h";
const GREEDY_RULE = "most probable?";
export const GREEDY_NOTE =
  "At temperature 0 a guess is kept only where it is the target’s most probable token. p and q are raw, at T = 1.";

// Return the row of a stop. `values` are the texts of the number columns. `outcome` is "" while it
// is unknown.
/**
 * @param {number} stop
 * @param {string} text
 * @param {string[]} values
 * @param {string} outcome
 */
export function verdictRow(stop, text, values, outcome) {
  const row = element("tr");
  row.dataset.node = String(stop);
  row.append(
    element("td", "token-text", text),
    ...values.map((value) => element("td", "number", value)),
  );
  const verdict = element("td", `verdict ${outcome}`);
  if (outcome) verdict.append(element("i", "", lookOf(outcome).mark), ` ${outcome}`);
  row.append(verdict);
  return row;
}

/** @param {Round} round */
export function verdictHead(round, first = "examined") {
  const raw = round.isGreedy ? "raw " : "";
  const names = [first, `${raw}p`, `${raw}q`, ruleOf(round), "u", "verdict"];
  const head = element("tr");
  for (const name of names) head.append(element("th", "", name));
  return head;
}

/** @param {Round} round */
function ruleOf(round) {
  if (round.isTypical) return "p enough?";
  if (round.isGreedy) return GREEDY_RULE;
  if (round.isJoint) return JOINT_RULE;
  return round.isPointMass ? PICKED_RULE : RULE;
}

/**
 * @param {Round} round
 * @param {number} stop
 */
export function outcomeOf(round, stop) {
  return stop === EXTRA ? round.extraKind : round.outcomes[stop];
}

// Return the outcome of a stop in the words of the legend.
/**
 * @param {Round} round
 * @param {number} stop
 */
export function outcomeTitle(round, stop) {
  const outcome = outcomeOf(round, stop);
  return outcome === null ? "" : lookOf(outcome).title;
}

// Return the numbers of an examined node as text: p, q, the threshold for u, and u. They have the
// same figures as in the sentence about the node.
/**
 * @param {Round} round
 * @param {number} node
 */
export function judgedNumbers(round, node) {
  const { p, residual, accept, u, raw_p } = round.verdict(node);
  const q = round.shownQ(node);
  // `residual` is null if another program made the recording and could not see the residual. In
  // that case, show p in its place.
  const [left, isDrawn] = [residual ?? p, !round.isTypical && !round.isGreedy];
  if (!isDrawn)
    return [...compared(round.isGreedy ? raw_p : left, q), accept > 0 ? "yes" : "no", "–"];
  const [threshold, draw] = u === null ? [decimals(accept), "unseen"] : drawn(accept, u);
  const [target, draft] =
    q === null || round.isPointMass || round.isJoint
      ? compared(left, q)
      : inProportion(left, q, threshold);
  return [`${target}${round.followsRejection(node) ? "*" : ""}`, draft, threshold, draw];
}

// Return the numbers of the extra token. It was not examined but drawn, either from the residual
// (r), which is p minus q scaled to sum to 1, or from p itself. At temperature 0 it is the target's
// most probable token.
/** @param {Round} round */
export function extraNumbers(round) {
  if (round.isGreedy) return [mostProbable(round), "", "yes", ""];
  const { kind, prob } = /** @type {ExtraTokenRecord} */ (round.extra);
  const name = kind === "recovered" && !round.isTypical ? "r" : "p";
  return [`${name} ${prob === null ? "?" : percent(prob)}`, "", "", ""];
}

// Return the raw p of the extra token, if the record has it.
/** @param {Round} round */
function mostProbable({ extra, record }) {
  const position = record.positions.find(({ parent }) => parent === extra?.parent);
  const at = extra && position ? position.id.indexOf(extra.id) : -1;
  return position && at >= 0 ? percent(position.raw_p[at]) : "";
}

// Explain the column q if the rule treats every drafted token as certain.
/** @param {Round} round */
export function pointMassNote(round) {
  if (!round.isPointMass || !round.outcomes.length) return "";
  const rule = "for the rule each guess is a point mass (q = 1), accepted with probability p.";
  return round.hasConfidence
    ? `q: the draft’s own confidence; ${rule}`
    : `—: this draft gives no probabilities; ${rule}`;
}
