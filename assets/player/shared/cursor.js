// The cursor that all views of a race share: a round, and a stop in that round. A stop is an
// examined node (in the order of examination) or the extra token (EXTRA). While the cursor follows
// a race, it is at the newest stop. After the end it selects the most informative round. A click
// may also select a node that was never examined. The next step of the cursor then goes to the
// first stop of that round.

export const ROOT = -1;
export const EXTRA = -2;

export class Cursor {
  round = -1;
  /** @type {number} */
  node = EXTRA;
  isFollowing = true;

  /**
   * @param {Trace} trace
   * @param {() => void} onChange
   */
  constructor(trace, onChange) {
    this.trace = trace;
    this.onChange = onChange;
    this.reset();
  }

  reset() {
    this.round = -1;
    this.node = EXTRA;
    this.isFollowing = true;
  }

  get stops() {
    return this.trace.rounds[this.round]?.stops ?? [];
  }

  // Move the cursor after the trace has grown or ended: to the newest round of a live race, or to
  // the most informative round of a finished one.
  follow() {
    if (!this.isFollowing) return;
    const { isLive, rounds, tellingRound } = this.trace;
    this.place(isLive ? rounds.length - 1 : tellingRound, null);
  }

  /** @param {boolean} isFollowing */
  setFollowing(isFollowing) {
    this.isFollowing = isFollowing;
    this.follow();
    this.onChange();
  }

  /**
   * @param {number} round
   * @param {number | null} [node]
   */
  select(round, node = null) {
    if (!this.trace.rounds.length) return;
    this.isFollowing = false;
    this.place(Math.max(0, Math.min(round, this.trace.rounds.length - 1)), node);
    this.onChange();
  }

  // Select a stop. Without a node, select the most informative stop of the round: its last
  // rejection, or otherwise its last stop.
  /**
   * @param {number} round
   * @param {number | null} node
   */
  place(round, node) {
    this.round = round;
    this.node = node ?? this.trace.rounds[round]?.tellingStop ?? EXTRA;
  }

  /** @param {number} step */
  stepRound(step) {
    this.select(this.round + step);
  }

  // Return the next stop (`step` 1) or the previous one (-1). Return null beyond the ends of the
  // run.
  /** @param {number} step */
  nextStop(step) {
    const { stops } = this;
    const at = stops.indexOf(this.node);
    const next = at < 0 ? (step > 0 ? 0 : -1) : at + step;
    if (next >= 0 && next < stops.length) return { round: this.round, node: stops[next] };
    const round = this.trace.rounds[this.round + step];
    return round
      ? { round: this.round + step, node: step > 0 ? round.stops[0] : round.stops.at(-1) }
      : null;
  }

  /** @param {number} step */
  stepStop(step) {
    const next = this.nextStop(step);
    if (next) this.select(next.round, next.node);
  }

  toFirst() {
    this.select(0, this.trace.rounds[0]?.stops[0] ?? null);
  }

  toLast() {
    this.select(this.trace.rounds.length - 1);
  }
}
