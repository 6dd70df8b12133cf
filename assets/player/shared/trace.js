// A race as far as the browser has received it: the tokens of every lane, every round, and the
// numbers. It reads messages (specviz/ui/race_messages.py) and is independent of the connection and
// of the views.

import { Round } from "./round.js";
import { withCharacters } from "./split_characters.js";

// One lane of a run: its part of the header (specviz/records/trace.py), and its events so far.
class Lane {
  /** @param {LaneRecord} header */
  constructor(header) {
    this.name = header.name;
    this.kind = header.kind;
    this.config = header.config;
    this.draft = header.draft;
    this.forks = header.forks;
    this.drafter_cache_bytes = header.drafter_cache_bytes;
    this.drafter_bytes = header.drafter_bytes;
    this.total_variation = header.total_variation;
    this.engine = header.engine;
    Object.assign(this, header); // also copy the header's remaining fields
    this.header = header;
    /** @type {Token[]} */
    this.tokens = [];
    this.clock = 0;
    /** @type {{ clock: number }[]} */
    this.forwards = []; // the target's forwards, if they are known: the prefill, then every round or plain step
    /** @type {any} */
    this.records = { prefill: null, rounds: [], steps: [], arrivals: [], finish: null };
  }

  // Return whether the lane has finished. A stopped lane has not.
  get hasEnded() {
    return this.records.finish !== null;
  }

  get isEngine() {
    return this.kind === "engine";
  }

  get isBaseline() {
    return this.kind === "baseline";
  }

  // Add an event to the lane. The finish of a stopped lane is recorded as null.
  /** @param {EventMessage} message */
  keep({ type, record, clock }) {
    this.clock = clock;
    if (type === "origins") return this.tellOrigins(record);
    if (type === "arrival" ? this.isNewForward(record) : type !== "finish")
      this.forwards.push({ clock });
    if (type === "arrival") this.records.arrivals.push(record);
    else if (type === "step") this.records.steps.push(record);
    else if (type === "round") this.records.rounds.push(record);
    else if (type === "prefill") this.records.prefill = record;
    else if (type === "finish") this.records.finish = record === "stopped" ? null : record;
  }

  // Set the origin of each token of a serving engine's lane. Some engines report all origins only
  // after the last token.
  /** @param {TokenOriginName[]} origins */
  tellOrigins(origins) {
    const { arrivals } = this.records;
    [this.records.arrivals, this.forwards] = [[], []];
    for (const [at, origin] of origins.entries()) {
      const arrival = { ...arrivals[at], origin };
      this.tokens[at].origin = origin;
      if (this.isNewForward(arrival)) this.forwards.push({ clock: this.tokens[at].clock });
      this.records.arrivals.push(arrival);
    }
  }

  // Return whether a token of a serving engine is the first token that one of the target's forwards
  // wrote. Return false if the engine reports no origins.
  /** @param {EngineTokenRecord} arrival */
  isNewForward({ origin }) {
    return origin !== null && this.records.arrivals.at(-1)?.origin !== "accepted";
  }

  // Return how many tokens the lane had at a moment, in seconds of its own clock.
  /** @param {number} moment */
  tokensAt(moment) {
    return countAt(this.tokens, moment);
  }

  // Return the tokens per second up to a moment: the number of tokens divided by the time of the
  // last one, or 0 before the first token. specviz/metrics/speedup_curve.py uses the same rule, so
  // that the headline and the lanes agree.
  /** @param {number} moment */
  rateAt(moment) {
    const count = this.tokensAt(moment);
    const seconds = this.tokens[count - 1]?.clock ?? 0;
    return seconds > 0 ? count / seconds : 0;
  }

  // Return how many forwards the target had run by a moment of the lane's clock.
  /** @param {number} moment */
  forwardsAt(moment) {
    return countAt(this.forwards, moment);
  }
}

// Return how many of the `items` had happened at a moment. The items are sorted by their clocks.
/**
 * @param {{ clock: number }[]} items
 * @param {number} moment
 */
function countAt(items, moment) {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].clock <= moment + 1e-9) low = middle + 1;
    else high = middle;
  }
  return low;
}

const NO_LANE = new Lane(
  /** @type {any} */ ({ name: "", kind: "", config: null, draft: null, forks: [] }),
);

/** @type {((round: Round) => boolean)[]} */
const TELLING = [
  (round) => round.isWhole && round.isMixed,
  (round) => round.isWhole && round.outcomes.length > 0,
];

export class Trace {
  constructor() {
    /** @type {any} null before the run starts */
    this.header = null;
    /** @type {Map<number, string>} */
    this.texts = new Map();
    /** @type {Record<string, Figure>} */
    this.templates = {};
    /** @type {Round[]} */
    this.rounds = [];
    /** @type {Lane[]} */
    this.lanes = [];
    /** @type {string | null} */
    this.ending = null;
    this.clear();
  }

  clear() {
    this.header = null;
    this.texts = new Map();
    this.templates = {};
    this.rounds = [];
    this.lanes = [];
    this.summary = null;
    this.copyWords = ""; // a note about the target's copy in four bits, if there is one
    this.figures = null;
    this.ending = null;
    this.isLive = false;
    this.isChain = true; // true as long as no round has two drafted tokens at one position
  }

  // Return a copy that later messages and other runs do not change.
  copy() {
    return Object.assign(new Trace(), this);
  }

  /** @param {RunMessage} message */
  take(message) {
    if (message.kind === "header") {
      this.clear();
      this.header = message.trace;
      this.lanes = message.trace.lanes.map((lane) => new Lane(lane));
      for (const [id, text] of message.trace.tokens) this.texts.set(id, text);
      this.isLive = true;
    } else if (message.kind === "event") {
      this.event(message);
    } else if (message.kind === "summary" || message.kind === "end") {
      this.numbers(message);
    }
  }

  // The prompt as the target received it, as a list of tokens. It is null if that is just the typed
  // text. A chat template adds tokens around the typed text, such as the start of an answer.
  /** @returns {string[] | null} */
  get templatedPrompt() {
    if (!this.header) return null;
    const { prompt, prompt_ids: ids } = this.header;
    const tokens = ids.map((/** @type {number} */ id) => this.text(id));
    const isTyped =
      !ids.length || withCharacters(tokens.join("")).trimEnd().endsWith(prompt.trimEnd());
    return isTyped ? null : tokens;
  }

  // The lane that the run is about: the first lane that is not the baseline.
  get main() {
    return this.lanes.find((lane) => !lane.isBaseline) ?? NO_LANE;
  }

  get baseline() {
    return this.lanes.find((lane) => lane.isBaseline) ?? NO_LANE;
  }

  /** @param {any} message of the type NumbersMessage */
  numbers({
    kind,
    summary,
    figures,
    reason,
    beside,
    waited,
    drafter_cache_bytes: cache,
    engines,
    copy_words: copyWords,
  }) {
    for (const [name, facts] of Object.entries(engines ?? {})) {
      const lane = /** @type {Lane} */ (this.lanes.find((each) => each.name === name));
      lane.engine = lane.header.engine = facts;
    }
    if (cache != null) {
      this.main.drafter_cache_bytes = cache;
      this.main.header.drafter_cache_bytes = cache;
    }
    this.summary = summary ?? this.summary;
    this.copyWords = copyWords ?? this.copyWords;
    this.figures = figures ?? this.figures;
    if (kind === "end" && this.header)
      Object.assign(this.header, { beside: beside ?? 0, waited: waited ?? null });
    if (kind === "end") this.end(reason);
  }

  /** @param {string} reason */
  end(reason) {
    this.ending = reason;
    this.isLive = false;
  }

  /** @param {EventMessage} message */
  event(message) {
    for (const [id, text] of Object.entries(message.texts)) this.texts.set(Number(id), text);
    if (message.type === "round") Object.assign(this.templates, message.templates);
    const lane = /** @type {Lane} */ (this.lanes.find(({ name }) => name === message.lane));
    lane.keep(message);
    if (message.type === "round" && lane === this.main) this.addRound(message);
    else if (message.type === "round")
      this.addTokens(lane, new Round(message.record, message.clock, {}, {}));
    else if (message.type === "prefill")
      this.addToken(lane, message, message.record.extra.id, "first");
    else if (message.type === "arrival")
      this.addToken(lane, message, message.record.id, message.record.origin ?? "unknown");
    else if (message.type === "step")
      this.addToken(lane, message, message.record.id, "plain", message.record);
  }

  // The ids of the tokens that ended a text, as the lanes show them.
  get endIds() {
    const ended = this.lanes.filter(({ records }) => records.finish === "end-of-sequence");
    return ended.flatMap(({ tokens }) => tokens.slice(-1)).map(({ id }) => id);
  }

  /**
   * @param {Lane} lane
   * @param {{ clock: number }} event
   * @param {number} id
   * @param {string} origin
   * @param {{ prob: number } | null} [record] the record of a plain step
   */
  addToken(lane, { clock }, id, origin, record = null) {
    lane.tokens.push({ id, text: this.text(id), origin, round: -1, node: -1, clock, record });
  }

  // Add the tokens that a round emitted. `index` is the number of the round in the main lane, or -1
  // for a round of another lane.
  /**
   * @param {Lane} lane
   * @param {Round} round
   * @param {number} [index]
   */
  addTokens(lane, round, index = -1) {
    for (const { id, origin, node } of round.emitted) {
      lane.tokens.push({ id, text: this.text(id), origin, round: index, node, clock: round.clock });
    }
  }

  /** @param {RoundMessage & { clock: number }} message */
  addRound({ record, clock, tree, mask, bars, residuals, remarks, sentences, timelines }) {
    const round = new Round(record, clock, { tree, mask, bars, residuals }, this.templates);
    round.remarks = remarks;
    round.sentences = sentences;
    round.isGreedy = this.configOf(this.rounds.length).temperature === 0;
    round.firstToken = this.main.tokens.length;
    const index = this.rounds.push(round) - 1;
    this.isChain &&= !round.isTree;
    this.addTokens(this.main, round, index);
    round.endToken = this.main.tokens.length;
    this.takeTimelines(timelines);
  }

  // Replace the timelines of some rounds. The timeline of a round also shows the round after it. So
  // when the next round arrives, the server sends the timeline of the round before it again.
  /** @param {Record<number, Figure>} timelines */
  takeTimelines(timelines) {
    for (const [index, figure] of Object.entries(timelines))
      this.rounds[Number(index)].figures.timeline = figure;
  }

  /** @param {number} id */
  text(id) {
    return this.texts.get(id) ?? `#${id}`;
  }

  // Return the settings with which a round was decoded. Before a fork these are the parent's
  // settings.
  /** @param {number} index */
  configOf(index) {
    const { forks, config } = this.main;
    return forks.find((fork) => index < fork.round)?.config ?? config;
  }

  get isGreedy() {
    return this.main.config?.temperature === 0;
  }

  get lastClock() {
    return this.rounds.at(-1)?.clock ?? 0;
  }

  // The moment at which the slowest lane ended, in seconds on the lanes' clocks.
  get endClock() {
    return Math.max(0, ...this.lanes.map(({ clock }) => clock));
  }

  // The index of the round that a finished race shows first: the last complete round with both
  // accepted and rejected tokens, otherwise the last complete round with either. The last round of
  // a run is often cut off by the token limit.
  get tellingRound() {
    for (const holds of TELLING) {
      const at = this.rounds.findLastIndex(holds);
      if (at >= 0) return at;
    }
    return this.rounds.length - 1;
  }

  // Return how many rounds had ended at a moment of the lane's clock.
  /** @param {number} moment */
  roundsAt(moment) {
    return countAt(this.rounds, moment);
  }

  // Return the index of the text token that a stop of the main lane became, or -1.
  /**
   * @param {number} round
   * @param {number} node
   */
  tokenOf(round, node) {
    const { firstToken, endToken } = this.rounds[round] ?? { firstToken: 0, endToken: 0 };
    for (let at = firstToken; at < endToken; at += 1) {
      if (this.main.tokens[at].node === node) return at;
    }
    return -1;
  }

  // Return the index of the first token that differs between a lane and the baseline, or -1.
  /** @param {Lane} lane */
  differenceOf(lane) {
    const [plain, other] = [this.baseline.tokens, lane.tokens];
    const length = Math.min(plain.length, other.length);
    for (let at = 0; at < length; at += 1) if (plain[at].id !== other[at].id) return at;
    return -1;
  }
}
