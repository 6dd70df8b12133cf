// The one linked cursor: which round, and which stop in it, every view highlights.
// Knows the order of stops in a trace; knows no view. While following, it stands on the newest stop;
// once the race has ended, on the round that tells most.
//
// A stop is a node that was examined, in the order of examination, or the extra token (EXTRA).
// A click may also select a node that was never examined; stepping goes on from the round's start.

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

  // Called when the trace grew or ended: the newest round, or of an ended race the telling one.
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

  // Without a node: the round's most telling stop, its rejection or else its last one.
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

  // The stop one on (1) or back (-1), null beyond the ends.
  /** @param {number} step */
  nextStop(step) {
    const { stops } = this;
    const at = stops.indexOf(this.node);
    const next = at < 0 ? (step > 0 ? 0 : -1) : at + step;
    if (next >= 0 && next < stops.length) return { round: this.round, node: stops[next] };
    const round = this.trace.rounds[this.round + step];
    return round ? { round: this.round + step, node: step > 0 ? round.stops[0] : round.stops.at(-1) } : null;
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
