// The debugger's sentences about a moment: about the tree, the walk, the distributions, the
// residual, and the origin of a token of the text.

import { EXTRA } from "../shared/cursor.js";
import { element } from "../shared/dom.js";
import { percent, whole } from "../shared/number_words.js";
import { remarkNodes } from "../shared/remarks.js";
import { tokenLabel } from "../shared/token_label.js";
import { GREEDY_NOTE, outcomeTitle, pointMassNote } from "../shared/verdict_row.js";

export const REDRAW_LATER =
  "p comes with the target’s forward: after it, this position can be drawn a thousand times, and the result compared with p.";
export const NO_MASK_YET = "The target’s forward has not run yet: its mask comes with verify.";

/**
 * @param {Round} round
 * @param {Moment} moment
 */
export function treeWords(round, { phase, level, node }) {
  const drafted = round.outcomes.length;
  return {
    draft: level ? `depth ${level} is drafted` : "nothing was drafted",
    verify: drafted
      ? `one target forward judges ${drafted > 1 ? `all ${drafted}` : "the guess"}`
      : "one target forward over the root alone",
    judge: `${round.isJoint ? `reading from the ${round.isTree ? "leaves" : "end"}, now` : "examining"} depth ${round.record.tree.nodes.depth[node ?? 0]}`,
    extra: extraWords(round),
    commit: round.counts,
  }[phase];
}

/** @param {Round} round */
function extraWords(round) {
  const failed = round.record.tree.nodes.parent.filter(
    (each) => each === round.extra?.parent,
  ).length;
  if (round.extraKind === "recovered")
    return `${failed > 1 ? "no guess here passed" : "the guess was rejected"}: a recovered token`;
  return round.extraKind === "bonus"
    ? "every guess on the way passed: a bonus token"
    : "no guess to judge: the target’s own token";
}

// Return the sentence of a moment as a list of parts. If the user changed the draw, the sentence
// describes the round with the new draw.
/**
 * @param {Round} round
 * @param {Moment} moment
 * @returns {Remark}
 */
export function momentSentence(round, { phase, level = 0, node }) {
  const { sentences, forced } = round;
  if (!sentences) return [];
  if (forced) return thoughtSentence(round, forced);
  if (phase === "draft") return sentences.draft[Math.max(0, level - 1)];
  if (phase === "verify" || phase === "commit") return sentences[phase];
  return round.sentenceOf(node ?? EXTRA);
}

/**
 * @param {Round} round
 * @param {{ node: number, u: number }} forced
 * @returns {Remark}
 */
function thoughtSentence(round, { node, u }) {
  if (round.hasOtherWalk) return ["With another draw: ", ...round.sentenceOf(node)];
  return [
    `With ${whole(u)} as the draw nothing changes: `,
    [round.tokenId(node)],
    ` is ${round.outcomes[node]} all the same.`,
  ];
}

// Return the words after the name of a stop in the chart's heading: its outcome, or that it is not
// judged yet.
/**
 * @param {Round} round
 * @param {number} node
 * @param {string} stage
 */
export function stopWords(round, node, stage) {
  if (stage !== "judged") return "drafted, not judged yet";
  return round.forced ? `counterfactual: ${outcomeTitle(round, node)}` : outcomeTitle(round, node);
}

// Return the heading of the chart while only q is known.
/** @param {Figure | null} figure */
export function draftedWords(figure) {
  return `${figure?.layout.meta.drafted.heading ?? "Nothing was drafted"}; p comes with the target’s forward`;
}

// Explain why the residual chart is empty.
/**
 * @param {Round} round
 * @param {number} parent
 * @param {string} stage
 */
export function noResidualWords(round, parent, stage) {
  if (!round.outcomes.length) return "Nothing was drafted, so nothing is taken away from p.";
  if (stage === "drafted") return "It comes with p, which the target’s forward brings.";
  if (!round.record.tree.nodes.parent.includes(parent))
    return "Nothing was drafted here, so nothing was taken away from p.";
  const isExamined = round.record.positions.some((each) => each.parent === parent);
  if (round.isJoint && !isExamined) return "Not in the record: no accepted guess led here.";
  return isExamined
    ? "Whoever recorded this run could not see it."
    : "Never examined: no accepted guess led here.";
}

// Say whether the residual in the chart is used. Most residuals are never drawn from.
/**
 * @param {Round} round
 * @param {number} parent
 * @param {number[]} judged
 * @param {string} stage
 */
export function residualWords(round, parent, judged, stage) {
  if (stage !== "judged")
    return "If every guess here were rejected, the target would draw from this.";
  const { parent: parents } = round.record.tree.nodes;
  const siblings = round.indices.filter((each) => parents[each] === parent);
  const left = siblings.filter((each) => !judged.includes(each)).length;
  const hasPassed = siblings.some(
    (each) => judged.includes(each) && round.outcomes[each] === "accepted",
  );
  if (hasPassed && round.outcomes[siblings[0]] === "accepted")
    return "Not needed this time, for the guess passed: from this the target would have drawn.";
  if (hasPassed) return "Nothing was drawn from it: a later sibling passed.";
  if (round.isJoint && parent >= 0 && !judged.includes(parent))
    return "If the draft before this guess passes, the recovered token is drawn from this.";
  if (left)
    return `Not drawn from yet: ${left === 1 ? "one sibling is" : `${left} siblings are`} still to be tried.`;
  return judged.includes(EXTRA)
    ? "The recovered token was drawn from it."
    : "The recovered token will be drawn from it.";
}

// Return the lines of a node's tooltip (specviz/figures/hover.py) that are known at a stage: its
// text, p, q, and the verdict.
/**
 * @param {string[]} given
 * @param {string} stage
 */
export function knownLines([text, p, q, ...verdict], stage) {
  if (stage === "judged") return [text, p, q, ...verdict];
  if (stage === "verified") return [text, p.split(" → ")[0], q, "not judged yet"];
  return [text, q, "drafted, not judged yet"];
}

// Explain the signs that occur in the table of the walk.
/**
 * @param {Round} round
 * @param {number[]} judged
 * @param {number} node
 */
export function walkNote(round, judged, node) {
  if (!round.outcomes.length) return "";
  if (round.isGreedy) return GREEDY_NOTE;
  return [pointMassNote(round), residualNote(round, judged, node), extraNote(round, judged)]
    .filter(Boolean)
    .join(" ");
}

// Explain the star in the table. It marks a token that was examined after a rejected sibling, so
// that the residual takes the place of p. If the row under the cursor has a star, also give its
// numbers.
/**
 * @param {Round} round
 * @param {number[]} judged
 * @param {number} node
 */
function residualNote(round, judged, node) {
  const isStarred = judged.some((stop) => stop !== EXTRA && round.followsRejection(stop));
  if (!isStarred || round.isTypical) return "";
  const usual = "* after a sibling’s rejection p is what was left of it, the residual";
  if (!judged.includes(node) || node === EXTRA || !round.followsRejection(node)) return `${usual}.`;
  const { p, residual } = round.verdict(node);
  return residual === null ? `${usual}.` : `${usual}: here ${percent(p)} → ${percent(residual)}.`;
}

/**
 * @param {Round} round
 * @param {number[]} judged
 */
function extraNote(round, judged) {
  if (!judged.includes(EXTRA)) return "";
  if (round.extra?.prob === null)
    return "?: unknown, for the record keeps of each distribution only the most probable tokens, and none after a node that was not examined.";
  return round.extraKind === "recovered" && !round.isTypical
    ? "r: the probability with which it was drawn from the residual."
    : "";
}

// Say where a token of the text came from: its round, its position in the tree and its kind. If
// `hasSentence`, the page already shows the sentence about the moment, so it is not repeated here.
// If `isThought`, the debugger shows a changed draw; the result then says that the origin is the
// recorded one.
/**
 * @param {Trace} trace
 * @param {Token} token
 * @param {{ hasSentence: boolean, isThought: boolean }} page
 * @returns {(string | Node)[]}
 */
export function originNodes(trace, token, { hasSentence, isThought }) {
  const chip = element("span", "token-chip", tokenLabel(token.text));
  const round = trace.rounds[token.round];
  if (!round) return [chip, ": drawn from the target after the prompt, before the first round."];
  const { depth } = round.record.tree.nodes;
  const place = token.node >= 0 ? `guess at depth ${depth[token.node]}, ` : "";
  const what = `${isThought ? ", as recorded" : ""}: round ${token.round + 1}, ${place}${token.origin}. `;
  return hasSentence
    ? [chip, what]
    : [chip, what, ...remarkNodes(trace, round.sentenceOf(token.node))];
}
