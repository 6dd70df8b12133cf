// Where the debugger stands: a round, and a moment in it. Moves by moment, phase, round, token, time.

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
    this.known = new WeakMap(); // a round -> its moments
    this.reset();
  }

  // Another run: stand at its first moment.
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

  // The node under the cursor, or null where a moment is of the whole tree.
  get node() {
    return this.moment?.node ?? null;
  }

  // ---- moving; each ends where there is no more

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

  // To the same phase of a neighbouring round, or to the nearest that it has.
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

  // To the next or previous phase, across rounds.
  /** @param {number} by */
  stepPhase(by) {
    const phase = this.moment?.phase;
    const at = this.moments.findIndex((each, index) => (by > 0 ? index > this.at : false) && each.phase !== phase);
    if (by > 0) return at >= 0 ? this.go(this.round, at) : this.step(this.moments.length - this.at);
    const before = this.moments.slice(0, this.at).findLastIndex((each) => each.phase !== phase);
    if (before < 0) return this.step(-this.at - 1);
    this.toPhase(this.moments[before].phase);
  }

  /** @param {string} phase */
  toPhase(phase) {
    const at = this.moments.findIndex((each) => each.phase === phase);
    const isCut = at < 0 && phase === "extra"; // the text ended: nothing was drawn
    if (at >= 0 || isCut) this.go(this.round, isCut ? this.moments.length - 1 : at);
  }

  // To the moment that judged a node or drew the extra token; a node never examined: its draft.
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

  // To the moment that a token of the text came from; the first one came from the prompt.
  /** @param {number} index */
  toToken(index) {
    const token = this.trace?.main.tokens[index];
    if (token && token.round >= 0) this.toNode(token.round, token.node);
  }

  get token() {
    return this.trace && this.current ? this.trace.tokenOf(this.round, this.node ?? EXTRA) : -1;
  }

  // While a run goes on: stay at its newest round, once it is whole.
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
