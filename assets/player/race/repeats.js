// Repeats of the same race. At the end the page shows the run with the median speedup, and the
// spread of all runs. This class does not know how a race runs.

import { middleOf } from "../shared/speedup_words.js";

export const REPEATS = 5;

/** @typedef {{ speedup: number | null, rates: Record<string, number> }} ServerNumbers speedup and tokens per second of the serving engines in the race */
/** @type {ServerNumbers} */
const NO_SERVERS = { speedup: null, rates: {} };

export class Repeats {
  constructor() {
    /** @type {{ speedup: number, servers: ServerNumbers, messages: any[] }[]} */
    this.runs = [];
    /** @type {any[]} messages of the current run */
    this.messages = [];
    this.isOn = false;
    this.disturbed = 0; // number of runs with an impossible speedup
  }

  begin() {
    this.runs = [];
    this.disturbed = 0;
    this.messages = [];
    this.isOn = true;
  }

  /** @param {any} message */
  hear(message) {
    if (this.isOn) this.messages.push(message);
  }

  // Record the end of a run and return whether another one follows. A stopped run does not count
  // and ends the series. A disturbed run is run again, at most REPEATS times.
  /**
   * @param {string} reason
   * @param {number | null | undefined} speedup
   * @param {ServerNumbers} [servers]
   */
  ended(reason, speedup, servers = NO_SERVERS, isDisturbed = false) {
    const isWhole = reason !== "stopped" && speedup != null;
    if (isWhole && isDisturbed) this.disturbed += 1;
    else if (isWhole) this.runs.push({ speedup, servers, messages: this.messages });
    this.messages = [];
    this.isOn = isWhole && this.runs.length < REPEATS && this.disturbed < REPEATS;
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

  // The messages of the run with the median speedup, or null if fewer than two runs have finished.
  get middle() {
    if (this.runs.length < 2) return null;
    const middle = middleOf(this.speedups);
    return this.runs.find(({ speedup }) => speedup === middle)?.messages ?? null;
  }
}
