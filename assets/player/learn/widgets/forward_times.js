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
    this.weightBytes = 0; // that a forward reads
  }

  /** @param {any} message of kind "forwards" */
  take({ counts, seconds, passes, model, weight_bytes: bytes }) {
    this.counts = counts;
    this.passes.push(seconds);
    this.wanted = passes;
    this.model = model;
    this.weightBytes = bytes;
  }

  get isWhole() {
    return this.wanted > 0 && this.passes.length >= this.wanted;
  }

  get largest() {
    return this.counts.at(-1);
  }

  // The quickest of the passes, for other work on the machine only adds time; undefined for a count that was
  // not measured.
  /** @param {number} count */
  seconds(count) {
    const at = this.counts.indexOf(count);
    return at < 0 ? undefined : Math.min(...this.passes.map((pass) => pass[at]));
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
    return one === undefined ? undefined : this.weightBytes / one;
  }

  // Multiplications and additions per second in a forward of so many tokens: two for each weight and token.
  /** @param {number} count */
  operationsPerSecond(count) {
    const seconds = this.seconds(count);
    return this.model && seconds !== undefined ? (2 * this.model.parameters * count) / seconds : undefined;
  }
}
