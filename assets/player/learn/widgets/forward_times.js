// The measured times of forwards with different numbers of tokens, and the speeds of memory and
// arithmetic that follow from them.

const GIGA = 1e9;
const SURE = 0.6; // a difference that occurs in a larger share of the passes does not count as noise

export class ForwardTimes {
  constructor() {
    /** @type {number[]} */
    this.counts = [];
    /** @type {number[][]} */
    this.passes = [];
    /** @type {ModelInfoRecord | null} */
    this.model = null;
    this.wanted = 0;
    this.weightBytes = 0; // bytes of weights that one forward reads
  }

  /** @param {any} message a message of the kind "forwards" */
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

  // Return the seconds of the fastest pass with `count` tokens, because other work on the machine
  // can only add time. Return undefined if that count was not measured.
  /** @param {number} count */
  seconds(count) {
    const at = this.counts.indexOf(count);
    return at < 0 ? undefined : Math.min(...this.passes.map((pass) => pass[at]));
  }

  // Return the time of a forward with `count` tokens divided by the time with one token.
  /** @param {number} count */
  ratio(count) {
    const [many, one] = [this.seconds(count), this.seconds(1)];
    return many === undefined || one === undefined ? undefined : many / one;
  }

  // Return the range of this ratio in the middle half of the passes, or null before all passes are
  // measured.
  /**
   * @param {number} count
   * @returns {[number, number] | null}
   */
  ratioRange(count) {
    const [many, one] = [this.counts.indexOf(count), this.counts.indexOf(1)];
    if (!this.isWhole || many < 0 || one < 0) return null;
    const ratios = this.passes.map((pass) => pass[many] / pass[one]).toSorted((a, b) => a - b);
    const cut = Math.floor(ratios.length / 4);
    return [ratios[cut], ratios[ratios.length - 1 - cut]];
  }

  // Return how many bytes of weights per second a forward with `count` tokens reads, if it does
  // nothing but read all weights.
  /** @param {number} count */
  bytesPerSecond(count) {
    const seconds = this.seconds(count);
    return seconds === undefined ? undefined : this.weightBytes / seconds;
  }

  // Return in how many passes a forward with `count` tokens took less time than one with a single
  // token.
  /** @param {number} count */
  quickerPasses(count) {
    const [many, one] = [this.counts.indexOf(count), this.counts.indexOf(1)];
    return this.passes.filter((pass) => pass[many] < pass[one]).length;
  }

  // Explain how a forward with many tokens can take less time than one with a single token. Return
  // "" if it took more time. `isTold` is false while the learner has not answered yet; the
  // explanation then hides the cause.
  //
  // Libraries use one matrix kernel for several rows and another one for a single row. The first
  // may read the same weights faster. With few passes, chance is another explanation.
  /**
   * @param {number} count
   * @param {boolean} isTold
   */
  whyQuicker(count, isTold) {
    if (!this.isWhole || (this.ratio(count) ?? 1) >= 1) return "";
    const quicker = this.quickerPasses(count);
    const passes = `in ${quicker} of ${this.passes.length} passes`;
    if (quicker <= SURE * this.passes.length)
      return `${count} tokens took less time than one only ${passes}: that is noise.`;
    const [one, many] = [1, count].map((each) =>
      ((this.bytesPerSecond(each) ?? 0) / GIGA).toFixed(1),
    );
    const why = `The same weights are read and more is multiplied, but by another routine, made for several tokens, which reads them at ${many} GB/s; the one for a single token reads them at ${one}.`;
    return `${count} tokens took even less time than one, ${passes}, so it is hardly noise. ${isTold ? why : "What takes the time is asked next; the answer says why."}`;
  }

  // Return how many multiplications and additions per second a forward with `count` tokens makes:
  // two for each weight and token.
  /** @param {number} count */
  operationsPerSecond(count) {
    const seconds = this.seconds(count);
    return this.model && seconds !== undefined
      ? (2 * this.model.parameters * count) / seconds
      : undefined;
  }
}
