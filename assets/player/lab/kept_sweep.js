// The sweep at hand, as the lines of its file, and the noise beside them; kept in this tab, so that a
// reload loses nothing that was measured.

import { tab } from "../shared/kept.js";

const NAME = "sweep";

export class KeptSweep {
  /** @type {string[]} */
  lines = [];
  /** @type {number[]} */
  noise = [];

  clear() {
    this.lines = [];
    this.noise = [];
  }

  /** @param {string} line */
  begin(line) {
    if (line !== this.lines[0]) this.clear(), (this.lines = [line]);
    this.keep();
  }

  /** @param {string} line */
  add(line) {
    this.lines.push(line);
    this.keep();
  }

  /** @param {number[]} noise */
  setNoise(noise) {
    this.noise = noise;
    this.keep();
  }

  /** @param {string} text */
  setFile(text) {
    this.lines = text.split("\n").slice(0, -1);
    if (this.lines.length === 0) this.lines = [text];
    this.noise = [];
    this.keep();
  }

  get isEmpty() {
    return this.lines.length === 0;
  }

  get file() {
    return `${this.lines.join("\n")}\n`;
  }

  get plan() {
    return JSON.parse(this.lines[0]);
  }

  // As they were measured: not in the plan's order where a sweep went on.
  get points() {
    return this.lines.slice(1).map((/** @type {any} */ line) => JSON.parse(line));
  }

  // How many points there will be.
  get size() {
    return this.plan.axes.reduce((/** @type {any} */ product, /** @type {any} */ [, values]) => product * values.length, 1);
  }

  get isComplete() {
    return this.lines.length - 1 >= this.size;
  }

  keep() {
    tab.keep(NAME, { lines: this.lines, noise: this.noise });
  }

  // Whether this tab had one.
  recall() {
    const { lines = [], noise = [] } = tab.recall(NAME, isSweep) ?? {};
    this.lines = lines;
    this.noise = noise;
    return !this.isEmpty;
  }
}

/** @param {any} value */
function isSweep(value) {
  const { lines, noise } = value;
  return Array.isArray(lines) && lines.every((line) => typeof JSON.parse(line) === "object") && Array.isArray(noise);
}
