// The current sweep as the lines of its file, and the noise of the machine. The tab stores it, so
// that a reload loses no measurement.

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
    if (line !== this.lines[0]) (this.clear(), (this.lines = [line]));
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

  // The points in the order in which they were measured. If a sweep was continued, this order
  // differs from the order of the plan.
  get points() {
    return this.lines.slice(1).map((/** @type {any} */ line) => JSON.parse(line));
  }

  // The number of points that the plan has.
  get size() {
    return this.plan.axes.reduce(
      (/** @type {any} */ product, /** @type {any} */ [, values]) => product * values.length,
      1,
    );
  }

  get isComplete() {
    return this.lines.length - 1 >= this.size;
  }

  keep() {
    tab.keep(NAME, { lines: this.lines, noise: this.noise });
  }

  // Restore the sweep that this tab stored, and return whether there was one.
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
  return (
    Array.isArray(lines) &&
    lines.every((line) => typeof JSON.parse(line) === "object") &&
    Array.isArray(noise)
  );
}
