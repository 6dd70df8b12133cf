// Replays a race on its own clock: the moment moves, the cursor follows it. One factor slows the whole race
// down, so every lane keeps its own time, and the replay ends when the last lane does.

const READ_TOKENS = 12; // a second, which the eye can follow
const MOST_MILLISECONDS = 500; // of a frame: a page that stood still, or was hidden, goes on where it was

/**
 * What a replay's speed can be. `rate`: own seconds of the race per second of the replay.
 * @type {{ name: string, title: string, rate: (trace: Trace) => number }[]}
 */
export const PACES = [
  { name: "reading", title: "reading speed", rate: ({ baseline }) => Math.min(1, (READ_TOKENS * baseline.clock) / baseline.tokens.length) },
  { name: "real", title: "real time", rate: () => 1 },
  { name: "round", title: "1 round a second", rate: ({ lastClock, rounds }) => lastClock / rounds.length },
  { name: "slow", title: "1 round in 3 s", rate: ({ lastClock, rounds }) => lastClock / rounds.length / 3 },
];

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
    this.pace = PACES[0].name;
    /** @type {number | null} */
    this.moment = null; // null: the end of the round under the cursor
    this.isPlaying = false;
    /** @type {number | null} */
    this.before = null; // the last frame
  }

  // Own seconds of the race per second of the replay.
  get rate() {
    return PACES.find(({ name }) => name === this.pace)?.rate(this.trace) || 1;
  }

  // How many rounds have ended at the moment of the replay: what comes after them is not to be seen yet.
  get ended() {
    return this.moment === null ? this.trace.rounds.length : this.trace.roundsAt(this.moment);
  }

  // "slowed 2.4 times", of the pace at hand.
  get words() {
    const times = 1 / this.rate;
    if (times === 1) return "in real time";
    return times > 1 ? `slowed ${times.toFixed(times < 10 ? 1 : 0)} times` : `quickened ${this.rate.toFixed(1)} times`;
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
    const passed = this.before === null ? 0 : Math.min(now - this.before, MOST_MILLISECONDS) / 1000;
    this.before = now;
    this.moment += passed * this.rate;
    const round = Math.max(0, this.ended - 1);
    if (round !== this.cursor.round) this.cursor.select(round);
    if (this.moment >= this.trace.endClock) return this.arrive();
    this.onChange();
    requestAnimationFrame((then) => this.tick(then));
  }

  // All lanes are written: the race as a whole again, where it tells most.
  arrive() {
    this.pause();
    this.cursor.setFollowing(true);
  }
}
