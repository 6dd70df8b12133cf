// What the tables of a walk have in common: the row of one stop, and the mark of each verdict.

import { EXTRA } from "./cursor.js";
import { element } from "./dom.js";
import { lookOf } from "./outcomes.js";
import { compared, decimals, drawn, inProportion, percent } from "./number_words.js";

// What u has to be below: how the rule is written wherever it stands.
export const RULE = "min(1,\u00a0p/q)";
export const PICKED_RULE = "min(1,\u00a0p/1)"; // a guess that was picked counts as q = 1
const GREEDY_RULE = "most probable?";
export const GREEDY_NOTE = "At temperature 0 a guess is kept only where it is the target’s most probable token. p and q are raw, at T = 1.";

// `values` fill the numbers' columns; `outcome` is "" while it is not known.
/**
 * @param {number} stop
 * @param {string} text
 * @param {string[]} values
 * @param {string} outcome
 */
export function verdictRow(stop, text, values, outcome) {
  const row = element("tr");
  row.dataset.node = String(stop);
  row.append(element("td", "token-text", text), ...values.map((value) => element("td", "number", value)));
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
  return round.isPointMass ? PICKED_RULE : RULE;
}

/**
 * @param {Round} round
 * @param {number} stop
 */
export function outcomeOf(round, stop) {
  return stop === EXTRA ? round.extraKind : round.outcomes[stop];
}

// What became of it, as the legend calls it.
/**
 * @param {Round} round
 * @param {number} stop
 */
export function outcomeTitle(round, stop) {
  const outcome = outcomeOf(round, stop);
  return outcome === null ? "" : lookOf(outcome).title;
}

// The numbers of a node that is judged: p and q as its sentence writes them, what the rule compares with u, and u.
/**
 * @param {Round} round
 * @param {number} node
 */
export function judgedNumbers(round, node) {
  const { p, residual, accept, u, raw_p } = round.verdict(node);
  const q = round.shownQ(node);
  const [left, isDrawn] = [residual ?? p, !round.isTypical && !round.isGreedy]; // null where whoever recorded the run could not see it
  if (!isDrawn) return [...compared(round.isGreedy ? raw_p : left, q), accept > 0 ? "yes" : "no", "–"];
  const [threshold, draw] = u === null ? [decimals(accept), "unseen"] : drawn(accept, u);
  const [target, draft] = q === null || round.isPointMass ? compared(left, q) : inProportion(left, q, threshold);
  return [`${target}${round.followsRejection(node) ? "*" : ""}`, draft, threshold, draw];
}

// The numbers of the extra token, which was not examined but drawn: from the residual (r), which is
// what p has beyond q, scaled to sum to 1, or from p itself. At temperature 0 nothing is drawn: it is
// the target's most probable token.
/** @param {Round} round */
export function extraNumbers(round) {
  if (round.isGreedy) return [mostProbable(round), "", "yes", ""];
  const { kind, prob } = /** @type {ExtraTokenRecord} */ (round.extra);
  const name = kind === "recovered" && !round.isTypical ? "r" : "p";
  return [`${name} ${prob === null ? "?" : percent(prob)}`, "", "", ""];
}

// Its raw p, where the record has it.
/** @param {Round} round */
function mostProbable({ extra, record }) {
  const position = record.positions.find(({ parent }) => parent === extra?.parent);
  const at = extra && position ? position.id.indexOf(extra.id) : -1;
  return position && at >= 0 ? percent(position.raw_p[at]) : "";
}

// What q says where the rule takes every guess as certain.
/** @param {Round} round */
export function pointMassNote(round) {
  if (!round.isPointMass || !round.outcomes.length) return "";
  const rule = "for the rule each guess is a point mass (q = 1), accepted with probability p.";
  return round.hasConfidence ? `q: the draft’s own confidence; ${rule}` : `—: this draft gives no probabilities; ${rule}`;
}
