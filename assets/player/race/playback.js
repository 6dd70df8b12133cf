// Replays a recorded race on its own clock: the moment moves, the cursor follows it. One factor slows the
// whole race down, so every lane keeps its own time; it is chosen so that on average so many rounds pass
// in a second.

export const PACES = [0.5, 1, 2, 5];

export class Playback {
  /**
   * @param {Trace} trace
   * @param {Cursor} cursor
   * @param {() => void} onChange
   */
  constructor(trace, cursor, onChange) {
    this.trace = trace;
    this.cursor = cursor;
    this.onChange = onChange;
    this.pace = 1; // rounds a second
    /** @type {number | null} */
    this.moment = null; // null: the end of the round under the cursor
    this.isPlaying = false;
    /** @type {number | null} */
    this.before = null; // the last frame
  }

  // Own seconds of the race per second of the replay.
  get rate() {
    const { rounds, lastClock } = this.trace;
    return (this.pace * lastClock) / rounds.length || 1;
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  play() {
    const { trace, cursor } = this;
    if (!trace.rounds.length || trace.isLive) return;
    const isAtEnd = cursor.isFollowing || cursor.round >= trace.rounds.length - 1;
    this.moment = isAtEnd ? 0 : trace.rounds[cursor.round].clock;
    if (isAtEnd) cursor.select(0);
    this.isPlaying = true;
    this.before = null;
    requestAnimationFrame((now) => this.tick(now));
    this.onChange();
  }

  pause() {
    this.isPlaying = false;
    this.moment = null;
    this.onChange();
  }

  /** @param {number} now */
  tick(now) {
    if (!this.isPlaying || this.moment === null) return;
    const passed = this.before === null ? 0 : (now - this.before) / 1000;
    this.before = now;
    this.moment += passed * this.rate;
    const round = this.trace.roundAt(this.moment);
    if (round !== this.cursor.round) this.cursor.select(round);
    if (this.moment >= this.trace.lastClock) return this.pause();
    this.onChange();
    requestAnimationFrame((then) => this.tick(then));
  }
}
