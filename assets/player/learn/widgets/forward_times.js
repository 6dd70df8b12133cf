// How long forwards take by their number of tokens, from passes that were measured: what reading the weights
// and what arithmetic would make of it. Knows no page.

export class ForwardTimes {
  constructor() {
    /** @type {number[]} */
    this.counts = [];
    /** @type {number[][]} */
    this.passes = [];
    /** @type {ModelInfoRecord | null} */
    this.model = null;
    this.wanted = 0;
  }

  /** @param {any} message of kind "forwards" */
  take({ counts, seconds, passes, model }) {
    this.counts = counts;
    this.passes.push(seconds);
    this.wanted = passes;
    this.model = model;
  }

  get isWhole() {
    return this.wanted > 0 && this.passes.length >= this.wanted;
  }

  get largest() {
    return this.counts.at(-1);
  }

  // The median of the passes; undefined for a count that was not measured.
  /** @param {number} count */
  seconds(count) {
    const at = this.counts.indexOf(count);
    const found = at < 0 ? [] : this.passes.map((pass) => pass[at]).sort((a, b) => a - b);
    if (!found.length) return undefined;
    const middle = found.length >> 1;
    return found.length % 2 ? found[middle] : (found[middle - 1] + found[middle]) / 2;
  }

  // Times of one token.
  /** @param {number} count */
  ratio(count) {
    const [many, one] = [this.seconds(count), this.seconds(1)];
    return many === undefined || one === undefined ? undefined : many / one;
  }

  // Bytes of weights per second, if a forward of one token reads them all and does nothing else.
  get bytesPerSecond() {
    const one = this.seconds(1);
    return this.model && one !== undefined ? this.model.bytes / one : undefined;
  }

  // Multiplications and additions per second in a forward of so many tokens: two for each weight and token.
  /** @param {number} count */
  operationsPerSecond(count) {
    const seconds = this.seconds(count);
    return this.model && seconds !== undefined ? (2 * this.model.parameters * count) / seconds : undefined;
  }
}
