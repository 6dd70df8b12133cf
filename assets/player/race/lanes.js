// Both lanes side by side: their texts, tokens per second, target forwards.
// Knows the trace and the moment shown.

import { setText } from "../shared/dom.js";
import { Ribbon } from "../shared/ribbon.js";

const NAMES = ["baseline", "speculative"];

export class Lanes {
  constructor(refs, trace, { onToken, tooltip }) {
    this.refs = refs;
    this.trace = trace;
    this.ribbons = {};
    for (const lane of NAMES) {
      this.ribbons[lane] = new Ribbon(refs[`${lane}Ribbon`], {
        onSelect: (at) => onToken(lane, at),
        onHover: (at, span) => this.hover(lane, at, span, tooltip),
      });
    }
  }

  hover(lane, at, span, tooltip) {
    const token = this.trace.tokens[lane][at];
    if (token) tooltip.show(this.trace, token, span);
    else tooltip.hide();
  }

  clear() {
    for (const lane of NAMES) {
      this.ribbons[lane].clear();
      setText(this.refs[`${lane}Meta`], "");
      setText(this.refs[`${lane}Rate`], "–");
    }
    this.differing = -1;
  }

  start() {
    this.clear();
    for (const lane of NAMES) this.ribbons[lane].start(this.trace.header.prompt);
  }

  // `moment`: own time up to which tokens show in full; Infinity shows all.
  draw(selected, from, to, moment, isFollowing) {
    for (const lane of NAMES) {
      const ribbon = this.ribbons[lane];
      ribbon.grow(this.trace.tokens[lane]);
      const shown = moment === Infinity ? Infinity : this.trace.countAt(lane, moment);
      const isOwn = lane === "speculative";
      // Above temperature 0 the texts differ by chance: the same place is not the same token.
      const marked = isOwn || this.trace.isGreedy ? selected : -1;
      ribbon.mark(marked, isOwn ? from : 0, isOwn ? to : 0, shown);
      if (!isFollowing) ribbon.reveal();
      this.numbers(lane, moment);
    }
    this.markDifference();
  }

  numbers(lane, moment) {
    const { tokens, clocks, forwards } = this.trace;
    const isAll = moment === Infinity;
    const count = isAll ? tokens[lane].length : this.trace.countAt(lane, moment);
    const seconds = isAll ? clocks[lane] : Math.min(moment, clocks[lane]);
    const passes = isAll ? forwards[lane] : this.forwardsAt(lane, count, moment);
    const words = [`${count} tokens`, `${passes} target forwards`, `${seconds.toFixed(2)} s`];
    setText(this.refs[`${lane}Meta`], words.join(" · "));
    const rate = seconds > 0 ? count / seconds : 0;
    setText(this.refs[`${lane}Rate`], rate ? rate.toFixed(rate < 100 ? 1 : 0) : "–");
  }

  forwardsAt(lane, count, moment) {
    if (lane === "baseline") return count;
    return this.trace.rounds.filter((round) => round.clock <= moment + 1e-9).length + (count > 0);
  }

  markDifference() {
    if (this.differing >= 0 || !this.trace.isGreedy) return;
    this.differing = this.trace.difference;
    if (this.differing >= 0) for (const lane of NAMES) this.ribbons[lane].differ(this.differing);
  }
}
