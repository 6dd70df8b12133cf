// Computes the values of the variables in the sixty-line program (docs/sixty_lines.py) at a moment
// of a recorded round. The program draws a chain of tokens, so it matches no other type of round.
// docs/sixty_lines.toml lists the moments and their variables.

import { EXTRA } from "./cursor.js";
import { decimals, drawn, probability } from "./number_words.js";
import { tokenLabel } from "./token_label.js";

// Explain why the sixty-line program does not match a round, or return "" if it does.
/** @param {Round} round */
export function whyNotTheseLines(round) {
  if (round.isTree)
    return "This round drafted a tree, with several guesses for a place; these lines draft one guess for each place, a chain.";
  if (round.isPointMass && round.outcomes.length)
    return "These guesses were made without dice, so each counts as certain: q is 1. These lines draw every guess from the draft’s q.";
  if (round.isTypical)
    return "This round was judged by a lossy rule; these lines are the lossless one.";
  if (round.isJoint)
    return "This round was judged as a whole, from its end; these lines judge token by token.";
  return "";
}

// Return the name of a moment as in docs/sixty_lines.toml, and the values of the variables as text.
/**
 * @param {Trace} trace
 * @param {Round} round
 * @param {Moment} moment
 * @returns {{ name: string, values: Record<string, string> }}
 */
export function codeMoment(trace, round, moment) {
  const { phase, node } = moment;
  const at = { trace, round, known: round.record.context, drafted: round.outcomes.length };
  if (phase === "draft")
    return moment.level
      ? drafting(at, Number(node))
      : { name: "nothing-drafted", values: counts(at) };
  if (phase === "verify") return { name: "verify", values: counts(at) };
  if (phase === "judge") return judging(at, Number(node));
  return phase === "extra" ? adding(at) : committing(at);
}

/** @typedef {{ trace: Trace, round: Round, known: number, drafted: number }} At */

/** @param {At} at */
function counts({ trace, round, known }) {
  const { id } = round.record.tree.nodes;
  return { known: String(known), drafted: `[${id.map((each) => label(trace, each)).join(", ")}]` };
}

/**
 * @param {At} at
 * @param {number} node
 */
function drafting({ trace, round }, node) {
  const { id, depth } = round.record.tree.nodes;
  const { q } = round.verdict(node);
  const values = {
    depth: String(depth[node]),
    "tokens[-1]": label(trace, id[node]),
    "q[-1][tokens[-1]]": round.isGreedy ? "1" : probability(q),
  };
  return { name: "draft", values };
}

/**
 * @param {At} at
 * @param {number} node
 */
function judging({ trace, round }, node) {
  const { id, depth } = round.record.tree.nodes;
  const { p, q, accept, u } = round.verdict(node);
  const [threshold, draw] = u === null ? [decimals(accept), "—"] : drawn(accept, u);
  const values = {
    x: label(trace, id[node]),
    n: String(depth[node] - 1),
    "p[n][x]": probability(p),
    "q[n][x]": probability(q),
    "min(1, p/q)": threshold,
    uniform: draw,
  };
  return { name: round.outcomes[node], values };
}

/** @param {At} at */
function adding({ trace, round, drafted }) {
  const isAll = round.extraKind !== "recovered";
  const values = {
    n: String(round.accepted.length),
    "len(drafted)": String(drafted),
    rest: isAll ? "p[n], for nothing was rejected" : "max(0, p[n] − q[n])",
    "tokens[-1]": label(trace, round.tokenId(EXTRA)),
  };
  return { name: "extra", values };
}

/** @param {At} at */
function committing({ round, known, drafted }) {
  const kept = round.accepted.length;
  const rejected = drafted - kept; // number of rejected tokens in the target's cache
  const values = {
    n: String(kept),
    rejected: String(rejected),
    "len(tokens)": String(known + round.emitted.length),
  };
  return { name: rejected ? "commit" : "nothing-to-forget", values };
}

/**
 * @param {Trace} trace
 * @param {number} id
 */
function label(trace, id) {
  return `'${tokenLabel(trace.text(id))}'`;
}
