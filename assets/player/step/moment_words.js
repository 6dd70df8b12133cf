// What the debugger says of a moment: of the tree, the walk, the distributions, the residual, and of where a
// token of the text came from.

import { EXTRA } from "../shared/cursor.js";
import { element } from "../shared/dom.js";
import { percent, whole } from "../shared/number_words.js";
import { remarkNodes } from "../shared/remarks.js";
import { tokenLabel } from "../shared/token_label.js";
import { GREEDY_NOTE, outcomeTitle, pointMassNote } from "../shared/verdict_row.js";

export const REDRAW_LATER = "p comes with the target’s forward: from then on this position can be drawn a thousand times, and what comes out compared with p.";
export const NO_MASK_YET = "The target’s forward has not run yet: its mask comes with verify.";

/**
 * @param {Round} round
 * @param {Moment} moment
 */
export function treeWords(round, { phase, level, node }) {
  const drafted = round.outcomes.length;
  return {
    draft: level ? `depth ${level} is drafted` : "nothing was drafted",
    verify: drafted ? `one target forward judges ${drafted > 1 ? `all ${drafted}` : "the guess"}` : "one target forward over the root alone",
    judge: `examining depth ${round.record.tree.nodes.depth[node ?? 0]}`,
    extra: extraWords(round),
    commit: round.counts,
  }[phase];
}

/** @param {Round} round */
function extraWords(round) {
  const failed = round.record.tree.nodes.parent.filter((each) => each === round.extra?.parent).length;
  if (round.extraKind === "recovered") return `${failed > 1 ? "no guess here passed" : "the guess was rejected"}: a recovered token`;
  return round.extraKind === "bonus" ? "every guess on the way passed: a bonus token" : "no guess to judge: the target’s own token";
}

// The sentence of a moment, or of what it would be with another draw, with its parts in turn.
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
  return [`With ${whole(u)} as the draw nothing changes: `, [round.tokenId(node)], ` is ${round.outcomes[node]} all the same.`];
}

// What stands behind the name of a stop.
/**
 * @param {Round} round
 * @param {number} node
 * @param {string} stage
 */
export function stopWords(round, node, stage) {
  if (stage !== "judged") return "drafted, not judged yet";
  return round.forced ? `counterfactual: ${outcomeTitle(round, node)}` : outcomeTitle(round, node);
}

// What the bars of q are, while p is not known.
/** @param {Figure | null} figure */
export function draftedWords(figure) {
  return `${figure?.layout.meta.drafted.heading ?? "Nothing was drafted"}; p comes with the target’s forward`;
}

// Why there is no residual to show.
/**
 * @param {Round} round
 * @param {number} parent
 * @param {string} stage
 */
export function noResidualWords(round, parent, stage) {
  if (!round.outcomes.length) return "Nothing was drafted, so nothing is taken away from p.";
  if (stage === "drafted") return "It comes with p, which the target’s forward brings.";
  if (!round.record.tree.nodes.parent.includes(parent)) return "Nothing was drafted here, so nothing was taken away from p.";
  const isExamined = round.record.positions.some((each) => each.parent === parent);
  return isExamined ? "Whoever recorded this run could not see it." : "Never examined: no accepted guess led here.";
}

// What becomes of the residual that shows: most are never drawn from.
/**
 * @param {Round} round
 * @param {number} parent
 * @param {number[]} judged
 * @param {string} stage
 */
export function residualWords(round, parent, judged, stage) {
  if (stage !== "judged") return "If every guess here were rejected, the target would draw from this.";
  const { parent: parents } = round.record.tree.nodes;
  const siblings = round.indices.filter((each) => parents[each] === parent);
  const left = siblings.filter((each) => !judged.includes(each)).length;
  const hasPassed = siblings.some((each) => judged.includes(each) && round.outcomes[each] === "accepted");
  if (hasPassed && round.outcomes[siblings[0]] === "accepted") return "Not needed this time, for the guess passed: from this the target would have drawn.";
  if (hasPassed) return "Nothing was drawn from it: a later sibling passed.";
  if (left) return `Not drawn from yet: ${left === 1 ? "one sibling is" : `${left} siblings are`} still to be tried.`;
  return judged.includes(EXTRA) ? "The recovered token was drawn from it." : "The recovered token will be drawn from it.";
}

// What of a node's card (specviz/figures/hover.py) is known at a stage: its text, p, q, and the rest.
/**
 * @param {string[]} given
 * @param {string} stage
 */
export function knownLines([text, p, q, ...verdict], stage) {
  if (stage === "judged") return [text, p, q, ...verdict];
  if (stage === "verified") return [text, p.split(" → ")[0], q, "not judged yet"];
  return [text, q, "drafted, not judged yet"];
}

// What the signs in the table of a walk mean, as far as the table shows them.
/**
 * @param {Round} round
 * @param {number[]} judged
 * @param {number} node
 */
export function walkNote(round, judged, node) {
  if (!round.outcomes.length) return "";
  if (round.isGreedy) return GREEDY_NOTE;
  return [pointMassNote(round), residualNote(round, judged, node), extraNote(round, judged)].filter(Boolean).join(" ");
}

// After a rejected sibling p is what was left of it: said once, for the row under the cursor.
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
  if (round.extra?.prob === null) return "?: unknown, for the record keeps of each distribution only the most probable tokens, and none behind a node that was not examined.";
  return round.extraKind === "recovered" && !round.isTypical ? "r: the probability with which it was drawn from the residual." : "";
}

// Where a token of the text came from: its place and what it is, and the sentence of that moment where that does
// not stand above the text already. `isThought`: of another draw, while this is as recorded.
/**
 * @param {Trace} trace
 * @param {Token} token
 * @param {{ hasSentence: boolean, isThought: boolean }} told
 * @returns {(string | Node)[]}
 */
export function originNodes(trace, token, { hasSentence, isThought }) {
  const chip = element("span", "token-chip", tokenLabel(token.text));
  const round = trace.rounds[token.round];
  if (!round) return [chip, ": drawn from the target after the prompt, before the first round."];
  const { depth } = round.record.tree.nodes;
  const place = token.node >= 0 ? `guess at depth ${depth[token.node]}, ` : "";
  const what = `${isThought ? ", as recorded" : ""}: round ${token.round + 1}, ${place}${token.origin}. `;
  return hasSentence ? [chip, what] : [chip, what, ...remarkNodes(trace, round.sentenceOf(token.node))];
}
