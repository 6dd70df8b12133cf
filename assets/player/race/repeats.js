// The same race several times: the run with the middle speedup is the one that is shown at the end, beside
// the spread of all. Knows nothing of how a race is run.

import { middleOf } from "../shared/speedup_words.js";

export const REPEATS = 5;

/** @typedef {{ speedup: number | null, rates: Record<string, number> }} ServerNumbers of the serving engines raced */
/** @type {ServerNumbers} */
const NO_SERVERS = { speedup: null, rates: {} };

export class Repeats {
  constructor() {
    /** @type {{ speedup: number, servers: ServerNumbers, messages: any[] }[]} */
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
   * @param {ServerNumbers} [servers]
   */
  ended(reason, speedup, servers = NO_SERVERS) {
    const isWhole = reason !== "stopped" && speedup != null;
    if (isWhole) this.runs.push({ speedup, servers, messages: this.messages });
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

  get servers() {
    return this.runs.map(({ servers }) => servers);
  }

  // The messages of the run in the middle, null where fewer than two came to their end.
  get middle() {
    if (this.runs.length < 2) return null;
    const middle = middleOf(this.speedups);
    return this.runs.find(({ speedup }) => speedup === middle)?.messages ?? null;
  }
}
