// The next verdict after the debugger's cursor, as a question for a class. The question shows the
// text so far and the guess. It hides p, q, the draw and the outcome, which belong to the answer.

import { tokenText } from "../shared/token_label.js";
import { momentsOf } from "./moments.js";

const LONGEST = 400; // characters of the text in the question

// Return the position of the next verdict, or null if the run has none after the cursor. Skip
// rounds with the lossy rule, because it compares p with a threshold, and rounds in which whole paths
// were judged: the question would not fit.
/**
 * @param {Round[]} rounds
 * @param {number} round
 * @param {number} at
 */
export function nextVerdict(rounds, round, at) {
  for (let index = round; index < rounds.length; index += 1) {
    if (rounds[index].isTypical || rounds[index].isJoint) continue;
    const moments = momentsOf(rounds[index]);
    const found = moments.findIndex(
      ({ phase }, place) => phase === "judge" && (index > round || place > at),
    );
    if (found >= 0)
      return { round: index, at: found, node: /** @type {number} */ (moments[found].node) };
  }
  return null;
}

/**
 * @param {Trace} trace
 * @param {{ round: number, node: number }} place
 * @returns {Omit<PageQuestion, "land">}
 */
export function verdictQuestion(trace, { round: index, node }) {
  const round = trace.rounds[index];
  const { depth, parent } = round.record.tree.nodes;
  const siblings = round.indices.filter((each) => parent[each] === parent[node]);
  const at = siblings.indexOf(node);
  const which =
    siblings.length > 1 ? `: number ${at + 1} of ${siblings.length} for the same place` : "";
  const before = at
    ? `; “${tokenText(trace.text(round.tokenId(siblings[at - 1]))).trim()}” before it was rejected`
    : "";
  return {
    kind: "verdict",
    place: `Round ${index + 1}, guess at depth ${depth[node]}${which}${before}`,
    words: lastOf(textBefore(trace, round, node)),
    guess: tokenText(trace.text(round.tokenId(node))),
    options: [],
    facts: verdictFacts(round, node),
  };
}

/**
 * @param {Round} round
 * @param {number} node
 * @returns {VerdictFacts}
 */
export function verdictFacts(round, node) {
  const { p, q, residual, accept, u, raw_p, raw_q, outcome } = round.verdict(node);
  const isLater = round.followsRejection(node) && residual !== null;
  const numbers = round.isGreedy
    ? { p: raw_p, q: raw_q }
    : { p: isLater ? residual : p, q: round.isPointMass ? 1 : q };
  return {
    ...numbers,
    accept,
    u,
    accepted: outcome === "accepted",
    greedy: round.isGreedy,
    residual: isLater,
    chosen: round.isPointMass,
  };
}

// Return the text before a node: the prompt, the tokens written before the round, and the guesses
// on the path to the node.
/**
 * @param {Trace} trace
 * @param {Round} round
 * @param {number} node
 */
function textBefore(trace, round, node) {
  const { parent } = round.record.tree.nodes;
  /** @type {string[]} */
  const way = [];
  for (let each = parent[node]; each >= 0; each = parent[each])
    way.unshift(trace.text(round.tokenId(each)));
  const written = trace.main.tokens.slice(0, round.firstToken).map(({ text }) => text);
  const gap = trace.templatedPrompt ? "\n" : "";
  return trace.header.prompt + gap + [...written, ...way].map(tokenText).join("");
}

/** @param {string} text */
function lastOf(text) {
  const letters = [...text];
  return letters.length > LONGEST ? `… ${letters.slice(-LONGEST).join("")}` : text;
}
