// The debugger's cursor: a round, and a moment in it. The cursor moves by moment, phase, round or
// token.

import { EXTRA } from "../shared/cursor.js";
import { momentsOf } from "./moments.js";

export class StepCursor {
  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    /** @type {Trace | null} */
    this.trace = null;
    this.round = this.at = 0;
    /** @type {WeakMap<Round, Moment[]>} */
    this.known = new WeakMap(); // the moments of each round that the cursor has visited
    this.reset();
  }

  // Move to the first moment of another run.
  /** @param {Trace} trace */
  show(trace) {
    this.trace = trace;
    this.reset();
    this.onChange();
  }

  reset() {
    this.round = 0;
    this.at = 0;
    this.isFollowing = false;
    this.known = new WeakMap();
  }

  get current() {
    return this.trace?.rounds[this.round] ?? null;
  }

  /** @param {Round | null | undefined} round */
  momentsOf(round) {
    if (!round) return [];
    const known = this.known.get(round) ?? momentsOf(round);
    this.known.set(round, known);
    return known;
  }

  get moments() {
    return this.momentsOf(this.current);
  }

  get moment() {
    return this.moments[this.at] ?? null;
  }

  // The node under the cursor, or null if the moment concerns the whole tree.
  get node() {
    return this.moment?.node ?? null;
  }

  // Every move stops at the first and the last moment of the run.

  /**
   * @param {number} round
   * @param {number} at
   */
  place(round, at) {
    const count = this.trace?.rounds.length ?? 0;
    if (!count) return;
    this.round = clamp(round, 0, count - 1);
    this.at = clamp(at, 0, this.moments.length - 1);
    this.onChange();
  }

  /**
   * @param {number} round
   * @param {number} at
   */
  go(round, at) {
    this.isFollowing = false;
    this.place(round, at);
  }

  /** @param {number} by */
  step(by) {
    const at = this.at + by;
    if (at >= 0 && at < this.moments.length) return this.go(this.round, at);
    const side = Math.sign(by);
    const next = this.trace?.rounds[this.round + side];
    if (next) this.go(this.round + side, side > 0 ? 0 : this.momentsOf(next).length - 1);
  }

  // Move to the same phase of a neighbouring round. If that round does not have the phase, move to
  // its first moment.
  /** @param {number} by */
  stepRound(by) {
    const next = this.trace?.rounds[this.round + by];
    if (!next) return this.go(this.round, by > 0 ? this.moments.length - 1 : 0);
    const phase = this.moment?.phase;
    const at = this.momentsOf(next).findIndex((each) => each.phase === phase);
    this.go(this.round + by, Math.max(0, at));
  }

  toFirst() {
    this.go(0, 0);
  }

  toLast() {
    const last = (this.trace?.rounds.length ?? 0) - 1;
    if (last >= 0) this.go(last, this.momentsOf(this.trace?.rounds[last]).length - 1);
  }

  // Move to the next or previous phase, also across rounds.
  /** @param {number} by */
  stepPhase(by) {
    const phase = this.moment?.phase;
    const at = this.moments.findIndex(
      (each, index) => (by > 0 ? index > this.at : false) && each.phase !== phase,
    );
    if (by > 0) return at >= 0 ? this.go(this.round, at) : this.step(this.moments.length - this.at);
    const before = this.moments.slice(0, this.at).findLastIndex((each) => each.phase !== phase);
    if (before < 0) return this.step(-this.at - 1);
    this.toPhase(this.moments[before].phase);
  }

  /** @param {string} phase */
  toPhase(phase) {
    const at = this.moments.findIndex((each) => each.phase === phase);
    const isCut = at < 0 && phase === "extra"; // the text ended, so that no token was added
    if (at >= 0 || isCut) this.go(this.round, isCut ? this.moments.length - 1 : at);
  }

  // Move to the moment that judged a node or drew the extra token. For a node that was never
  // examined, move to the moment that drafted it.
  /**
   * @param {number} round
   * @param {number} node
   */
  toNode(round, node) {
    const moments = this.momentsOf(this.trace?.rounds[round]);
    const judged = moments.findIndex((each) => each.node === node && each.phase !== "draft");
    const depth = this.trace?.rounds[round]?.record.tree.nodes.depth[node];
    const drafted = moments.findIndex((each) => each.phase === "draft" && each.level === depth);
    this.go(round, Math.max(0, judged >= 0 ? judged : drafted));
  }

  // Move to the moment that produced a token of the text. The first token has no such moment,
  // because it came from the prompt.
  /** @param {number} index */
  toToken(index) {
    const token = this.trace?.main.tokens[index];
    if (token && token.round >= 0) this.toNode(token.round, token.node);
  }

  get token() {
    return this.trace && this.current ? this.trace.tokenOf(this.round, this.node ?? EXTRA) : -1;
  }

  // Stay at the newest complete round of a live run.
  follow() {
    if (!this.isFollowing || !this.trace?.rounds.length) return;
    const last = this.trace.rounds.length - 1;
    this.place(last, this.momentsOf(this.trace.rounds[last]).length - 1);
  }

  /** @param {boolean} isFollowing */
  setFollowing(isFollowing) {
    this.isFollowing = isFollowing;
    this.follow();
    this.onChange();
  }
}

/**
 * @param {number} value
 * @param {number} low
 * @param {number} high
 */
function clamp(value, low, high) {
  return Math.max(low, Math.min(high, value));
}
