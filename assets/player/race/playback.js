// The replay of a finished race. The replay advances a moment in time, and the cursor follows it.
// All lanes are slowed down by the same factor, so their speeds stay comparable. The replay ends
// with the last lane.

const READ_TOKENS = 12; // tokens per second, slow enough to read along

// longest step of the replay per frame; after a freeze or in a hidden tab, the replay continues
// where it was
const MOST_MILLISECONDS = 500;

/**
 * The speeds of a replay. `rate` returns how many seconds of the race pass in one second of the
 * replay.
 * @type {{ name: string, title: string, rate: (trace: Trace) => number }[]}
 */
export const PACES = [
  {
    name: "reading",
    title: "reading speed",
    rate: ({ baseline }) => Math.min(1, (READ_TOKENS * baseline.clock) / baseline.tokens.length),
  },
  { name: "real", title: "real time", rate: () => 1 },
  {
    name: "round",
    title: "1 round a second",
    rate: ({ lastClock, rounds }) => lastClock / rounds.length,
  },
  {
    name: "slow",
    title: "1 round in 3 s",
    rate: ({ lastClock, rounds }) => lastClock / rounds.length / 3,
  },
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
    this.moment = null; // seconds of the race; null shows the end of the round under the cursor
    this.isPlaying = false;
    /** @type {number | null} */
    this.before = null; // time of the last animation frame, in milliseconds
  }

  // The number of seconds of the race that pass in one second of the replay.
  get rate() {
    return PACES.find(({ name }) => name === this.pace)?.rate(this.trace) || 1;
  }

  // The number of rounds that have ended at the replay's moment. Later rounds are hidden.
  get ended() {
    return this.moment === null ? this.trace.rounds.length : this.trace.roundsAt(this.moment);
  }

  // The current speed in words, such as "slowed 2.4 times".
  get words() {
    const times = 1 / this.rate;
    if (times === 1) return "in real time";
    return times > 1
      ? `slowed ${times.toFixed(times < 10 ? 1 : 0)} times`
      : `quickened ${this.rate.toFixed(1)} times`;
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

  // End the replay. Show the whole race again and select its most informative round.
  arrive() {
    this.pause();
    this.cursor.setFollowing(true);
  }
}
