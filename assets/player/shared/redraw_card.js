// A card that shows that the text follows p exactly: it repeats the draw at the cursor's position a
// thousand times, with the distributions that verification computed.

import { EXTRA } from "./cursor.js";
import { element, setText } from "./dom.js";
import { proofFold } from "./proof.js";
import { redrawPlan } from "./redraw.js";
import { RedrawView } from "./redraw_view.js";
import { tokenLabel } from "./token_label.js";
import { LIKELIEST, twoWaysNodes, waysAt } from "./two_ways.js";

export class RedrawCard extends RedrawView {
  // `onExample` opens another run, whose draws are random; it is null if there is no such run.
  // `exampleWords` returns the label of the button for it.
  /**
   * @param {HTMLElement} box the element of the card, which already contains the curve
   * @param {(() => void) | null} [onExample]
   * @param {() => string} [exampleWords]
   */
  constructor(box, onExample = null, exampleWords = () => "") {
    super(box);
    this.exampleWords = exampleWords;
    this.example = element("button", "primary", exampleWords());
    this.example.type = "button";
    this.example.addEventListener("click", () => onExample?.());
    this.hasExample = onExample !== null;
    this.go.after(this.example);
    this.sum = element("p", "redraw-sum");
    this.how.after(this.sum);
    this.proof = proofFold();
    box.append(this.proof);
    /** @type {any} the position: its run, round and node */
    this.place = {};
    /** @type {WeakMap<Round, Map<number, import("./redraw_view.js").Drawn>>} round -> parent node -> the draws made there */
    this.past = new WeakMap();
    this.clear();
  }

  clear() {
    this.show({
      trace: null,
      round: null,
      node: null,
      words: "After a run has ended, the draw at each position of its text can be repeated.",
    });
  }

  // Show the text position of a stop. If no position can be shown, `words` say why. If the drafted
  // token was rejected, `isRejected` is true. `isWhole` is true if the card may name the token that
  // the text finally has at this position.
  /** @param {{ trace: Trace | null, round: Round | null, node: number | null, words?: string, isWhole?: boolean, isRejected?: boolean }} place */
  show(place) {
    const { trace, round, node, words = "", isWhole = false, isRejected = false } = place;
    const was = this.place;
    setText(this.example, this.exampleWords());
    if (
      was.round === round &&
      was.node === node &&
      was.words === words &&
      was.isRejected === isRejected
    )
      return;
    this.keep();
    this.go.hidden = this.hasExample && Boolean(round?.isGreedy);
    this.example.hidden = !this.go.hidden;
    const parent = round && node !== null ? round.parentOf(node) : undefined;
    this.place = { ...place, words, isRejected };
    const written =
      round && node !== null ? (isWhole ? writtenAt(round, node) : round.tokenId(node)) : null;
    const plan = round && !words ? redrawPlan(round, parent, written) : null;
    this.drawSum(plan, written, trace);
    if (!trace || !round || !plan) return this.setSubject(null, words || whyNot(place));
    const label = (/** @type {number | null} */ id) =>
      id === null ? "" : tokenLabel(trace.text(id));
    const own = plan.guesses.length ? "recovered" : (round.extraKind ?? "plain");
    const seed = (round.record.i * 64 + Number(parent) + 2) * 16;
    const subject = { plan, seed, label, own, written, isLossy: plan.rule === "typical" };
    this.setSubject(
      subject,
      `${whereWords(place)} ${howWords(plan)}`,
      this.past.get(round)?.get(Number(parent)),
    );
  }

  // Start the draws because of a key. The card may be outside the view, so show it.
  startByKey() {
    this.start();
    this.box.scrollIntoView({ block: "nearest" });
  }

  openProof() {
    this.proof.open = true;
  }

  // Store the draws of this position, to show them again if the user returns.
  keep() {
    const { round, node } = this.place;
    if (!round || node === null || !this.subject) return;
    const drawn = this.past.get(round) ?? new Map();
    this.past.set(round, drawn.set(round.parentOf(node), this.drawn));
  }

  // Show how the two ways to a token (accepted draft, or draw from the residual) add up to p, for
  // the token that the text has here.
  /**
   * @param {RedrawPlan | null} plan
   * @param {number | null} written
   * @param {Trace | null} trace
   */
  drawSum(plan, written, trace) {
    const { round, node, isWhole, isRejected } = this.place;
    const origins = plan && written !== null ? waysAt(plan, written, isRejected) : null;
    this.sum.hidden = !origins?.ways;
    if (!origins?.ways || !trace) return setText(this.sum, "");
    const isInstead = isWhole && round.tokenId(node) !== written;
    const which = origins.isOther ? LIKELIEST : isInstead ? ", written here instead" : "";
    this.sum.replaceChildren(
      ...twoWaysNodes(
        tokenLabel(trace.text(origins.id)),
        which,
        origins.ways,
        Boolean(plan?.guesses.length),
      ),
    );
  }
}

// Return the token that the text has at a stop's position: the accepted drafted token, or otherwise
// the target's own token.
/**
 * @param {Round} round
 * @param {number} node
 */
function writtenAt(round, node) {
  const parent = round.parentOf(node);
  const kept = round.accepted.find((each) => round.parentOf(each) === parent);
  if (kept !== undefined) return round.tokenId(kept);
  return round.tokenId(round.extra?.parent === parent ? EXTRA : node);
}

/** @param {any} place */
function whereWords({ trace, round, node }) {
  return `Round ${round.record.i + 1}, at the position of ${tokenLabel(trace.text(round.tokenId(node)))}.`;
}

/** @param {RedrawPlan} plan */
function howWords({ drawing, rule, guesses }) {
  if (!guesses.length)
    return "Nothing was drafted here, so each draw is a draw of the target from p itself.";
  if (rule === "typical")
    return "In each draw, typical acceptance compares the same guesses with its threshold. If none passes, the target draws from p. This rule is lossy, so the bars may differ from p.";
  const many =
    guesses.length > 1 ? ` Up to ${guesses.length} guesses are tried one after another.` : "";
  if (drawing === "chosen")
    return `In each draw, the guess that the drafter picked is kept with probability p. Otherwise, the target draws from p without this guess.${many} The result follows p, whatever guess was picked.`;
  return `For each token, q is the draft’s probability and p the target’s. In each draw, a guess is drawn from q and kept with probability min(1, p/q). Otherwise, it is replaced by a token from the residual of p.${many} The result follows p, however bad the guesses are.`;
}

/** @param {any} place */
function whyNot({ trace, round, node }) {
  if (round?.isJoint && !round.isGreedy)
    return "This rule judges whole paths of the draft, so the draw at one position cannot be repeated by itself.";
  if (round?.isGreedy)
    return `At temperature 0 nothing is drawn at random, so no draw can be repeated. One token has p = 1: the target’s most probable one${bestWords(trace, round, node)}. A guess passes only if it is that token, so the text is the target’s own, token for token.`;
  return "This position was never examined, so the record has no distributions for it.";
}

// Name the most probable token at this position, if the record has it.
/**
 * @param {Trace} trace
 * @param {Round} round
 * @param {number | null} node
 */
function bestWords(trace, round, node) {
  const parent = node === null ? undefined : round.parentOf(node);
  const position = round.record.positions.find((each) => each.parent === parent);
  const at = position ? position.p.indexOf(1) : -1;
  return position && at >= 0 ? ` (here ${tokenLabel(trace.text(position.id[at]))})` : "";
}
