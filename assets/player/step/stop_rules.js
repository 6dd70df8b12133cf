// The rules of the debugger's card "Jump to", such as "rejection" or "bonus token". A rule says
// which stops of a run the user wants to jump to. A stop is an examined node of a round, or the
// round's extra token.

import { EXTRA } from "../shared/cursor.js";

// If the user can enter a number or a text for a rule, `value` is its default, and `low` and `high`
// are the bounds of a number.
/** @type {StopRule[]} */
export const RULES = [
  { name: "rejection", title: "rejection", holds: (at) => at.outcome === "rejected" },
  { name: "recovered", title: "recovered token", holds: (at) => at.extra === "recovered" },
  { name: "bonus", title: "bonus token", holds: (at) => at.extra === "bonus" },
  {
    name: "over",
    title: "draft surer than target: q > p",
    holds: (at) => at.isNode && at.isDrawn && at.q > at.p,
  },
  {
    name: "tie",
    title: "close call: u from p/q less than",
    value: 0.05,
    low: 0,
    high: 1,
    // no draw is close if p >= q, because the token is then always accepted
    holds: (at, value) =>
      at.isNode && at.u !== null && at.p < at.q && Math.abs(at.u - at.p / at.q) < value,
  },
  {
    name: "depth",
    title: "depth",
    value: 3,
    low: 1,
    high: 32,
    holds: (at, value) => at.isNode && at.depth === value,
  },
  {
    name: "entropy",
    title: "target unsure: entropy of p over",
    value: 2,
    low: 0,
    high: 20,
    holds: (at, value) => at.entropy > value,
  },
  {
    name: "argmax",
    title: "most probable tokens differ",
    holds: (at) => at.isNode && at.draftBest !== null && at.draftBest !== at.targetBest,
  },
  {
    name: "token",
    title: "token",
    value: "",
    isText: true,
    holds: (at, value) =>
      value !== "" && (at.text.includes(value) || String(at.id) === value || at.completes(value)),
  },
];

// Return the facts about one stop by which the rules decide whether it matches.
/**
 * @param {Trace} trace
 * @param {Round} round
 * @param {number} node
 */
export function factsOf(trace, round, node) {
  const { record } = round;
  const id = round.tokenId(node);
  const isNode = node !== EXTRA;
  const parent = isNode
    ? record.tree.nodes.parent[node]
    : /** @type {ExtraTokenRecord} */ (round.extra).parent;
  const position = record.positions.find((each) => each.parent === parent);
  const completes = (/** @type {string} */ value) =>
    completesText(trace, trace.tokenOf(round.record.i, node), value);
  const shared = {
    id,
    text: trace.text(id),
    completes,
    isNode,
    entropy: position?.entropy ?? 0,
    extra: isNode ? null : round.extraKind,
  };
  if (!isNode) return shared;
  const { p, residual, q, u, outcome, raw_p, raw_q } = round.verdict(node);
  const compared = round.isGreedy ? { p: raw_p, q: raw_q } : { p: residual ?? p, q };
  return {
    ...shared,
    ...compared,
    outcome,
    isDrawn: !round.isPointMass,
    depth: record.tree.nodes.depth[node],
    u: round.isGreedy ? null : u,
    targetBest: best(position?.id, position?.raw_p),
    draftBest: best(position?.id, position?.raw_q),
  };
}

// Return whether the token at `index` completes a text that may span several tokens. An `index` of
// -1 means that the stop is not a token of the text.
/**
 * @param {Trace} trace
 * @param {number} index
 * @param {string} value
 */
function completesText(trace, index, value) {
  if (index < 0) return false;
  const tokens = trace.main.tokens;
  let text = tokens[index].text;
  const own = text.length;
  for (let at = index - 1; at >= 0 && text.length < own + value.length - 1; at -= 1)
    text = tokens[at].text + text;
  const from = Math.max(0, text.length - own - value.length + 1);
  return text.indexOf(value, from) >= 0;
}

// Return the most probable token. Of several equally probable ones, return the lowest id, as the
// decoder does at temperature 0.
/**
 * @param {number[] | undefined} ids
 * @param {number[] | undefined} probs
 */
export function best(ids, probs) {
  if (!ids || !probs?.length) return null;
  const most = Math.max(...probs);
  return Math.min(...ids.filter((_, at) => probs[at] === most));
}

// All stops of a run that match one rule, in the order of the run: [{round, node}]. While the run
// is live, later rounds can add stops to the list.
export class Matches {
  /**
   * @param {StopRule} rule
   * @param {string | number | null} value
   */
  constructor(rule, value) {
    this.rule = rule;
    this.value = value;
    /** @type {{ round: number, node: number }[]} */
    this.found = [];
    this.seen = 0;
  }

  /** @param {Trace} trace */
  grow(trace) {
    for (; this.seen < trace.rounds.length; this.seen += 1) {
      const round = trace.rounds[this.seen];
      for (const node of round.stops) {
        const facts = factsOf(trace, round, node);
        if (this.rule.holds(facts, this.value)) this.found.push({ round: this.seen, node });
      }
    }
    return this.found;
  }
}
