// Replays a recorded race on its own clock: the moment moves, the cursor follows it.
// Knows the rounds' clocks and a rate; asks nobody.

export const RATES = [1, 0.5, 0.25, 0.1];

export class Playback {
  constructor(trace, cursor, onChange) {
    this.trace = trace;
    this.cursor = cursor;
    this.onChange = onChange;
    this.rate = 0.5;
    this.moment = null; // null: the end of the round under the cursor
    this.isPlaying = false;
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  play() {
    const { trace, cursor } = this;
    if (!trace.rounds.length || trace.isLive) return;
    const isAtEnd = cursor.round >= trace.rounds.length - 1;
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

  tick(now) {
    if (!this.isPlaying) return;
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
