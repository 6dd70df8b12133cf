// The same race several times: the run with the middle speedup is the one that is shown at the end, beside
// the spread of all. Knows nothing of how a race is run.

import { middleOf } from "./speedup_words.js";

export const REPEATS = 5;

export class Repeats {
  constructor() {
    /** @type {{ speedup: number, messages: any[] }[]} */
    this.runs = [];
    /** @type {any[]} of the run that goes on */
    this.messages = [];
    this.isOn = false;
  }

  begin() {
    this.runs = [];
    this.messages = [];
    this.isOn = true;
  }

  /** @param {any} message */
  hear(message) {
    if (this.isOn) this.messages.push(message);
  }

  // A run has ended: whether another one is to come. One that was stopped counts for nothing and ends them.
  /**
   * @param {string} reason
   * @param {number | null | undefined} speedup
   */
  ended(reason, speedup) {
    const isWhole = reason !== "stopped" && speedup != null;
    if (isWhole) this.runs.push({ speedup, messages: this.messages });
    this.messages = [];
    this.isOn = isWhole && this.runs.length < REPEATS;
    return this.isOn;
  }

  get words() {
    return `run ${this.runs.length + 1} of ${REPEATS} …`;
  }

  get speedups() {
    return this.runs.map(({ speedup }) => speedup);
  }

  // The messages of the run in the middle, null where fewer than two came to their end.
  get middle() {
    if (this.runs.length < 2) return null;
    const middle = middleOf(this.speedups);
    return this.runs.find(({ speedup }) => speedup === middle)?.messages ?? null;
  }
}
