// The card "What if", which changes the draw u of the token under the cursor. The server repeats
// the walk of the round with the new draw and the stored probabilities, using the same Python rule.
// Nothing is decoded.

import { EXTRA } from "../shared/cursor.js";
import { element, leadTo, setText } from "../shared/dom.js";
import { markWrong } from "../shared/field_errors.js";
import { drawn, whole } from "../shared/number_words.js";
import { tokenLabel } from "../shared/token_label.js";

export class WhatIf {
  // `onChange()` is called when the user changes the draw. `onBack(round, node)` is called when the
  // user wants to return to a node whose draw was changed earlier.
  /**
   * @param {Refs} refs
   * @param {(name: string, question: object) => Promise<Reply>} ask
   * @param {{ onChange: () => void, onBack: (round: number, node: number) => void }} on
   */
  constructor(refs, ask, { onChange, onBack }) {
    this.refs = refs;
    this.ask = ask;
    this.onChange = onChange;
    this.field = new DrawField(
      refs,
      (u) => this.think(u),
      (words) => this.showResult(words),
    );
    refs.whatIfReset.addEventListener(
      "click",
      () => (this.remember(undefined), this.reset(), this.onChange()),
    );
    refs.whatIfFork.addEventListener("click", () => leadTo(refs.fork, refs.forkGo));
    refs.whatIfBack.addEventListener("click", () => this.left && onBack(...this.left.place));
    /** @type {{ trace: Trace, place: [number, number], words: string } | null} the last changed draw, null after it was given up */
    this.left = null;
    /** @type {{ u: number } | null} the draw that the server must still answer, null for none */
    this.wanted = null;
    this.isAsking = false;
    this.key = ""; // numbers of the current round and node, separated by a space
    /** @type {any} the round as the changed draw would have made it, null for the recorded round */
    this.thought = null;
    /** @type {any} */
    this.round = this.trace = null;
    /** @type {number} */
    this.node = -1;
    this.thoughts = new WeakMap(); // the draw that the user chose last, keyed by trace and position
    this.clear();
  }

  clear() {
    this.key = "";
    this.thought = null;
    this.wanted = null; // ignore a reply that is still under way, because it belongs to another token
    this.refs.whatIf.hidden = true;
  }

  /**
   * @param {Trace} trace
   * @param {StepCursor} cursor
   */
  draw(trace, cursor) {
    this.settle(trace, cursor);
    const isAway = this.left?.trace === trace && this.left.place.join(" ") !== this.key;
    this.refs.whatIfAway.hidden = !isAway;
    setText(this.refs.whatIfAwayWords, isAway ? (this.left?.words ?? "") : "");
  }

  /**
   * @param {Trace} trace
   * @param {StepCursor} cursor
   */
  settle(trace, cursor) {
    const { refs } = this;
    const { node } = cursor;
    const round = /** @type {Round} */ (cursor.current); // never null, because this card is drawn only if there is a round
    const isOffered = !round.isGreedy && !round.isTypical;
    const isJudging = node !== null && node !== EXTRA && cursor.moment.phase === "judge";
    const u = isOffered && isJudging ? round.verdict(node).u : null;
    refs.whatIf.classList.toggle("is-waiting", u === null);
    if (u === null) this.clear();
    refs.whatIf.hidden = !isOffered; // a visible card keeps its height, so that the cards below do not move
    if (u === null)
      return void setText(
        refs.whatIfText,
        isJudging
          ? "The record does not keep this draw."
          : "Step on to a guess that is judged to change its draw.",
      );
    if (this.key === `${cursor.round} ${node}` && this.trace === trace) return;
    this.key = `${cursor.round} ${node}`;
    this.trace = trace;
    this.round = round;
    this.node = node ?? -1;
    this.reply = null;
    this.rootId = trace.main.tokens[round.firstToken - 1]?.id ?? null;
    this.reset();
    const before = this.thoughts.get(trace)?.[this.key];
    if (before !== undefined) this.field.take(before);
  }

  // The draws that differ from the recorded ones: the changed u, keyed by its node.
  get forced() {
    return this.thought ? { [this.node]: this.thought.forced.u } : {};
  }

  // Store the changed draw, so that the user finds it again after moving away.
  /** @param {number | undefined} u */
  remember(u) {
    const { trace, round, node } = this;
    this.thoughts.set(trace, { ...this.thoughts.get(trace), [this.key]: u });
    const name = tokenLabel(trace.text(round.tokenId(node)));
    const words = `The draw ${whole(u ?? 0)} was a thought at ${name} in round ${round.record.i + 1}; here the run is as recorded.`;
    this.left =
      u === undefined || u === round.verdict(node).u
        ? null
        : { trace, place: [round.record.i, node], words };
  }

  reset() {
    const { refs, round, node, trace } = this;
    const { u, accept } = round.verdict(node);
    this.wanted = null;
    this.thought = null;
    this.field.show(u, accept);
    const [name, threshold] = [tokenLabel(trace.text(round.tokenId(node))), drawn(accept, u)[0]];
    setText(
      refs.whatIfText,
      round.isJoint
        ? jointWords(name, round, node, threshold)
        : thresholdWords(name, round.outcomes[node], threshold),
    );
    this.showResult("");
    refs.whatIfActions.hidden = true;
  }

  // Show the round with the draw u. The outcome depends only on whether u is below the threshold.
  // So as long as the server has not answered for this exact draw, show the known result for
  // another draw on the same side of the threshold.
  /** @param {number} u */
  async think(u) {
    const { round, node, refs } = this;
    const recorded = round.verdict(node);
    this.remember(u);
    if (u === recorded.u) return (this.reset(), this.onChange());
    this.wanted = null;
    refs.whatIfActions.hidden = false;
    const isOther = u < recorded.accept !== (round.outcomes[node] === "accepted");
    this.show(isOther ? this.reply : null, u);
    if (!isOther)
      return this.showResult(
        `Nothing changes: the round still adds ${this.texts(round.emitted.map((/** @type {any} */ { id }) => id))}`,
      );
    this.wanted = { u };
    if (!this.isAsking) await this.askUntilTold();
  }

  // Ask the server one question at a time, and always ask about the latest draw.
  async askUntilTold() {
    this.isAsking = true;
    for (let asked = this.wanted; asked; asked = this.wanted === asked ? null : this.wanted) {
      const { key } = this;
      const reply = await this.ask("what_if", this.asked(asked.u));
      if (!this.wanted || key !== this.key) continue;
      if (reply && !reply.error) this.reply = reply;
      this.show(this.reply, this.wanted.u);
      this.showResult(this.words(reply));
    }
    this.isAsking = false;
  }

  /** @param {number} u */
  asked(u) {
    const { round, node, trace, rootId } = this;
    const {
      tree: { nodes },
      extras,
    } = round.record;
    const ids = [...nodes.id, ...extras, rootId].filter((id) => id !== null);
    const texts = Object.fromEntries(ids.map((id) => [id, trace.text(id)]));
    return { record: round.record, forced: { [node]: u }, ends: trace.endIds, texts, root: rootId };
  }

  /**
   * @param {Reply} reply
   * @param {number} u
   */
  show(reply, u) {
    const { round, node } = this;
    this.thought = reply?.differs
      ? counterfactual(round, reply, node, u)
      : drawnAnew(round, node, u);
    this.onChange();
  }

  /** @param {string} words */
  showResult(words) {
    setText(this.refs.whatIfResult, words);
  }

  /** @param {number[]} ids */
  texts(ids) {
    return ids.map((id) => (id === null ? "…" : tokenLabel(this.trace.text(id)))).join(" ");
  }

  /** @param {Reply} reply */
  words(reply) {
    if (!reply) return "The server cannot be reached.";
    if (reply.error) return reply.error;
    const was = this.texts(this.round.emitted.map((/** @type {any} */ { id }) => id));
    if (!reply.differs) return `Nothing changes: the round still adds ${was}`;
    return `Counterfactual: the round would add ${this.texts(reply.emitted)} instead of ${was}`;
  }
}

/**
 * @param {string} text
 * @param {string} outcome
 * @param {string} accept
 */
function thresholdWords(text, outcome, accept) {
  if (accept === "1") return `Any u accepts ${text}: p ≥ q.`;
  if (accept === "0") return `No u accepts ${text}: p is 0 here.`;
  const fate =
    outcome === "accepted"
      ? "rejected if u is at least the threshold"
      : "accepted if u is below the threshold";
  return `Drag u: ${text} is ${fate}, ${accept}.`;
}

// Return the sentence about u for a rule that judges whole paths. If the draw of a guess passes,
// the rule also accepts all guesses before it.
/**
 * @param {string} text
 * @param {Round} round
 * @param {number} node
 * @param {string} accept
 */
export function jointWords(text, round, node, accept) {
  const isAccepted = round.outcomes[node] === "accepted";
  if (isAccepted && node !== round.accepted.at(-1))
    return `Any u accepts ${text}: a longer draft passed.`;
  if (accept === "0") return `No u lets the draft up to ${text} pass: h is 0 here.`;
  if (accept === "1") return `Any u accepts ${text}: h is 1 here.`;
  const fate = isAccepted
    ? `the draft up to ${text} fails if u is at least`
    : `${text} is accepted with all guesses before it if u is below`;
  return `Drag u: ${fate} the threshold, ${accept}.`;
}

// Return a copy of the round in which one node has another draw, but all verdicts stay the same.
/**
 * @param {Round} round
 * @param {number} node
 * @param {number} u
 */
function drawnAnew(round, node, u) {
  const made = Object.create(round);
  made.forced = { node, u };
  made.hasOtherWalk = false;
  made.verdict = (/** @type {number} */ each) => ({
    ...round.verdict(each),
    ...(each === node ? { u } : {}),
  });
  return made;
}

/**
 * @param {Round} round
 * @param {Reply} reply
 * @param {number} node
 * @param {number} u
 */
function counterfactual(round, { outcomes, extra, emitted, tree, sentences }, node, u) {
  const made = drawnAnew(round, node, u);
  const { verdict } = made;
  made.hasOtherWalk = true;
  made.outcomes = outcomes;
  made.accepted = round.indices.filter((each) => outcomes[each] === "accepted");
  made.record = { ...round.record, extra: extra && { ...extra, id: emitted.at(-1) } };
  made.stops = made.walk();
  made.verdict = (/** @type {number} */ each) => ({ ...verdict(each), outcome: outcomes[each] });
  made.figures = { ...round.figures, tree };
  made.sentences = sentences;
  return made;
}

// The changed draw as a slider, as a text field for every number in [0, 1), and as a button that
// jumps to the other side of the threshold.
const DIGITS = 6; // decimals of a recorded draw and of a threshold
const FEW_DIGITS = 3; // decimals of a draw that the button offers

class DrawField {
  // `onDraw` is called with a changed draw, `onRefusal` with the reason if the typed text is not a
  // draw.
  /**
   * @param {Refs} refs
   * @param {(u: number) => void} onDraw
   * @param {(words: string) => void} onRefusal
   */
  constructor(refs, onDraw, onRefusal) {
    this.refs = refs;
    this.onDraw = onDraw;
    this.onRefusal = onRefusal;
    const { whatIfDraw: slider } = refs;
    slider.max = String(1 - 10 ** -DIGITS);
    slider.step = "any"; // a fixed step would round the recorded draw and could not cross a threshold near 1
    this.field = element("input");
    // The button has one of two labels. Start with the longer one, so that the line wraps in the
    // same way with both.
    this.beyond = element("button", "chip", "Just below the threshold");
    this.u = this.threshold = 0;
    this.made();
    slider.addEventListener("input", () => this.take(Number(slider.value)));
    slider.addEventListener("keydown", (/** @type {any} */ event) => this.nudge(event));
    this.field.addEventListener("input", () => this.typed());
    this.beyond.addEventListener("click", () => this.take(this.other));
  }

  made() {
    const row = element("p", "row tight");
    const label = element("label", "go");
    Object.assign(this.field, { type: "text", inputMode: "decimal", size: 14 });
    this.field.setAttribute("aria-label", "The uniform draw u, exactly");
    this.field.style.width = "9.5em"; // wide enough for twelve digits
    label.append(element("span", "hint", "exactly"), this.field);
    Object.assign(this.beyond, { type: "button", hidden: true });
    row.append(label, this.beyond);
    this.refs.whatIfDraw.closest("label").after(row);
  }

  // Show a recorded draw. The verdict changes at `threshold`.
  /**
   * @param {number} u
   * @param {number} threshold
   */
  show(u, threshold) {
    this.threshold = threshold;
    this.beyond.hidden = threshold <= 0 || threshold >= 1;
    this.place(u);
  }

  /** @param {number} u */
  take(u) {
    this.place(u);
    this.onDraw(u);
  }

  /** @param {number} u */
  place(u) {
    const { refs, field, beyond } = this;
    const text = whole(u);
    this.u = u;
    refs.whatIfDraw.value = text;
    if (field.value !== text && Number(field.value || NaN) !== u) field.value = text;
    markWrong(field, false);
    setText(refs.whatIfValue, drawn(this.threshold, u)[1]);
    setText(beyond, u < this.threshold ? "Just past the threshold" : "Just below the threshold");
  }

  // The nearest draw on the other side of the threshold that can be written with few digits. A draw
  // with more digits than a record keeps could be rounded to the threshold itself.
  get other() {
    const { u, threshold } = this;
    const isAbove = u < threshold;
    for (let digits = FEW_DIGITS; digits <= DIGITS; digits += 1) {
      const unit = 10 ** (Math.floor(Math.log10(threshold)) + 1 - digits);
      const beyond = Number((isAbove ? threshold + unit : threshold - unit).toPrecision(digits));
      if (beyond < 1) return beyond;
    }
    return threshold;
  }

  typed() {
    const text = this.field.value.trim();
    const u = Number(text);
    const holds = text !== "" && u >= 0 && u < 1;
    markWrong(this.field, !holds);
    if (holds) this.take(u);
    else this.onRefusal(`u must be from 0 to below 1, got “${text.slice(0, 20)}”`);
  }

  // Move the slider by 0.001 per arrow key. Without this, the browser would move it by a hundredth
  // of its range.
  /** @param {KeyboardEvent} event */
  nudge(event) {
    /** @type {Record<string, number>} */
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };
    const by = steps[event.key];
    if (!by) return;
    event.preventDefault();
    const u = Number((this.u + by * 0.001).toFixed(DIGITS));
    this.take(Math.max(0, Math.min(Number(this.refs.whatIfDraw.max), u)));
  }
}
