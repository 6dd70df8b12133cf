// The race as far as it is known in this browser: both lanes' tokens, every round, the numbers.
// Fed by messages (specviz/ui/race_messages.py); knows nothing of how they came or who draws.

import { Round } from "./round.js";

const TELLING = [(round) => round.isWhole && round.isMixed, (round) => round.isWhole && round.outcomes.length > 0];

export class Trace {
  constructor() {
    this.clear();
  }

  clear() {
    this.header = null;
    this.texts = new Map();
    this.templates = {};
    this.rounds = [];
    this.tokens = { baseline: [], speculative: [] };
    this.clocks = { baseline: 0, speculative: 0 };
    this.forwards = { baseline: 0, speculative: 0 };
    this.records = { prefill: null, finish: null, baselinePrefill: null, baselineFinish: null, steps: [] };
    this.summary = null;
    this.figures = null;
    this.ending = null;
    this.isLive = false;
  }

  take(message) {
    if (message.kind === "header") {
      this.clear();
      this.header = message.trace;
      this.isLive = true;
    } else if (message.kind === "event") {
      this.event(message);
    } else if (message.kind === "summary" || message.kind === "end") {
      this.numbers(message);
    }
  }

  numbers({ kind, summary, figures, reason }) {
    this.summary = summary ?? this.summary;
    this.figures = figures ?? this.figures;
    if (kind === "end") this.end(reason);
  }

  end(reason) {
    this.ending = reason;
    this.isLive = false;
  }

  event(message) {
    for (const [id, text] of Object.entries(message.texts)) this.texts.set(Number(id), text);
    Object.assign(this.templates, message.templates);
    this.clocks[message.lane] = message.clock;
    this.keep(message);
    if (message.type === "finish") return;
    this.forwards[message.lane] += 1;
    if (message.type === "round") this.addRound(message);
    else if (message.type === "prefill") this.addToken(message, message.record.extra.id, "first");
    else this.addToken(message, message.record.id, "plain", message.record);
  }

  // The tokens that a lane shows to end a text.
  get endIds() {
    const { finish, baselineFinish } = this.records;
    const lanes = [[finish, this.tokens.speculative], [baselineFinish, this.tokens.baseline]];
    return lanes.flatMap(([reason, tokens]) => (reason === "end-of-sequence" ? tokens.slice(-1) : [])).map(({ id }) => id);
  }

  // What a file of this run needs beside the rounds; a lane that was stopped has no finish.
  keep({ lane, type, record }) {
    const { records } = this;
    const isBaseline = lane === "baseline";
    if (type === "step") records.steps.push(record);
    else if (type === "prefill") records[isBaseline ? "baselinePrefill" : "prefill"] = record;
    else if (type === "finish") records[isBaseline ? "baselineFinish" : "finish"] = record === "stopped" ? null : record;
  }

  addToken({ lane, clock }, id, origin, record = null) {
    this.tokens[lane].push({ id, text: this.text(id), origin, round: -1, node: -1, clock, record });
  }

  addRound({ record, clock, tree, mask, bars, residuals, remarks, timelines }) {
    const round = new Round(record, clock, { tree, mask, bars, residuals }, this.templates);
    round.remarks = remarks;
    round.isGreedy = this.configOf(this.rounds.length).temperature === 0;
    round.firstToken = this.tokens.speculative.length;
    const index = this.rounds.push(round) - 1;
    for (const { id, origin, node } of round.emitted) {
      this.tokens.speculative.push({ id, text: this.text(id), origin, round: index, node, clock });
    }
    round.endToken = this.tokens.speculative.length;
    this.takeTimelines(timelines);
  }

  // A round's timeline shows the next round too, so each comes again with that one.
  takeTimelines(timelines) {
    for (const [index, figure] of Object.entries(timelines)) this.rounds[index].figures.timeline = figure;
  }

  text(id) {
    return this.texts.get(id) ?? `#${id}`;
  }

  // The setting that made a round: before a fork, that of its parent.
  configOf(index) {
    const { forks, config } = this.header;
    return forks.find((fork) => index < fork.round)?.config ?? config;
  }

  get isGreedy() {
    return this.header?.config.temperature === 0;
  }

  get lastClock() {
    return this.rounds.at(-1)?.clock ?? 0;
  }

  // Where an ended race is shown first, for its last round is often cut by the limit of tokens: the
  // last whole round with guesses both accepted and rejected, else the last whole one with any.
  get tellingRound() {
    for (const holds of TELLING) {
      const at = this.rounds.findLastIndex(holds);
      if (at >= 0) return at;
    }
    return this.rounds.length - 1;
  }

  // The round at work at this moment of the lane's own time.
  roundAt(moment) {
    const at = this.rounds.findIndex((round) => round.clock >= moment);
    return at < 0 ? this.rounds.length - 1 : at;
  }

  // How many tokens a lane had at this moment of its own time.
  countAt(lane, moment) {
    const tokens = this.tokens[lane];
    let [low, high] = [0, tokens.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tokens[middle].clock <= moment + 1e-9) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The speculative token that a stop became, or -1.
  tokenOf(round, node) {
    const { firstToken, endToken } = this.rounds[round] ?? { firstToken: 0, endToken: 0 };
    for (let at = firstToken; at < endToken; at += 1) {
      if (this.tokens.speculative[at].node === node) return at;
    }
    return -1;
  }

  // Where both texts first differ, or -1.
  get difference() {
    const { baseline, speculative } = this.tokens;
    const length = Math.min(baseline.length, speculative.length);
    for (let at = 0; at < length; at += 1) if (baseline[at].id !== speculative[at].id) return at;
    return -1;
  }
}
