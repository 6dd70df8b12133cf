// How long forwards take by their number of tokens, from passes that were measured: what reading the weights
// and what arithmetic would make of it. Knows no page.

const GIGA = 1e9;
const SURE = 0.6; // share of the passes from which a difference is not called noise

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

  // Bytes of weights per second, if a forward of so many tokens reads them all and does nothing else.
  /** @param {number} count */
  bytesPerSecond(count) {
    const seconds = this.seconds(count);
    return seconds === undefined ? undefined : this.weightBytes / seconds;
  }

  // In how many of the passes it took less time than one token.
  /** @param {number} count */
  quickerPasses(count) {
    const [many, one] = [this.counts.indexOf(count), this.counts.indexOf(1)];
    return this.passes.filter((pass) => pass[many] < pass[one]).length;
  }

  // Why many tokens took less time than one, "" where they did not; a cause is named if it may be told. Libraries multiply several rows by another
  // routine than one row, which may read the same weights faster; a few passes may also differ by chance.
  /**
   * @param {number} count
   * @param {boolean} isTold
   */
  whyQuicker(count, isTold) {
    if (!this.isWhole || (this.ratio(count) ?? 1) >= 1) return "";
    const quicker = this.quickerPasses(count);
    const passes = `in ${quicker} of ${this.passes.length} passes`;
    if (quicker <= SURE * this.passes.length) return `${count} tokens took less time than one only ${passes}: that is noise.`;
    const [one, many] = [1, count].map((each) => ((this.bytesPerSecond(each) ?? 0) / GIGA).toFixed(1));
    const why = `The same weights are read and more is multiplied, but by another routine, made for several tokens, which reads them at ${many} GB/s; the one for a single token reads them at ${one}.`;
    return `${count} tokens took even less time than one, ${passes}, so it is hardly noise. ${isTold ? why : "What takes the time is asked next; the answer says why."}`;
  }

  // Multiplications and additions per second in a forward of so many tokens: two for each weight and token.
  /** @param {number} count */
  operationsPerSecond(count) {
    const seconds = this.seconds(count);
    return this.model && seconds !== undefined ? (2 * this.model.parameters * count) / seconds : undefined;
  }
}
