// The baseline and the main lane side by side: their texts, tokens per second, target forwards.
// Knows the trace and the moment shown.

import { setText } from "../shared/dom.js";
import { Ribbon } from "../shared/ribbon.js";

// The places that the page has for lanes, and the lane that each shows.
const PLACES = { baseline: (trace) => trace.baseline, speculative: (trace) => trace.main };

export class Lanes {
  constructor(refs, trace, { onToken, tooltip }) {
    this.refs = refs;
    this.trace = trace;
    this.ribbons = {};
    for (const place of Object.keys(PLACES)) {
      this.ribbons[place] = new Ribbon(refs[`${place}Ribbon`], {
        onSelect: (at) => onToken(place, at),
        onHover: (at, span) => this.hover(place, at, span, tooltip),
      });
    }
  }

  hover(place, at, span, tooltip) {
    const token = PLACES[place](this.trace).tokens[at];
    if (token) tooltip.show(this.trace, token, span);
    else tooltip.hide();
  }

  clear() {
    for (const place of Object.keys(PLACES)) {
      this.ribbons[place].clear();
      setText(this.refs[`${place}Meta`], "");
      setText(this.refs[`${place}Rate`], "–");
    }
    this.differing = -1;
  }

  start() {
    this.clear();
    for (const place of Object.keys(PLACES)) this.ribbons[place].start(this.trace.header.prompt);
  }

  // `moment`: own time up to which tokens show in full; Infinity shows all.
  draw(selected, from, to, moment, isFollowing) {
    for (const place of Object.keys(PLACES)) {
      const ribbon = this.ribbons[place];
      const lane = PLACES[place](this.trace);
      ribbon.grow(lane.tokens);
      const shown = moment === Infinity ? Infinity : this.trace.countAt(lane, moment);
      const isOwn = lane === this.trace.main;
      // Above temperature 0 the texts differ by chance: the same place is not the same token.
      const marked = isOwn || this.trace.isGreedy ? selected : -1;
      ribbon.mark(marked, isOwn ? from : 0, isOwn ? to : 0, shown);
      if (!isFollowing) ribbon.reveal();
      this.numbers(place, lane, moment);
    }
    this.markDifference();
  }

  numbers(place, lane, moment) {
    const { tokens, clock, forwards } = lane;
    const isAll = moment === Infinity;
    const count = isAll ? tokens.length : this.trace.countAt(lane, moment);
    const seconds = isAll ? clock : Math.min(moment, clock);
    const passes = isAll ? forwards : this.forwardsAt(lane, count, moment);
    const words = [`${count} tokens`, `${passes} target forwards`, `${seconds.toFixed(2)} s`];
    setText(this.refs[`${place}Meta`], words.join(" · "));
    const rate = seconds > 0 ? count / seconds : 0;
    setText(this.refs[`${place}Rate`], rate ? rate.toFixed(rate < 100 ? 1 : 0) : "–");
  }

  forwardsAt(lane, count, moment) {
    if (lane !== this.trace.main) return count;
    return this.trace.rounds.filter((round) => round.clock <= moment + 1e-9).length + (count > 0);
  }

  markDifference() {
    if (this.differing >= 0 || !this.trace.isGreedy) return;
    this.differing = this.trace.difference;
    if (this.differing >= 0) for (const place of Object.keys(PLACES)) this.ribbons[place].differ(this.differing);
  }
}
