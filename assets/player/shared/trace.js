// The race as far as it is known in this browser: every lane's tokens, every round, the numbers.
// Fed by messages (specviz/ui/race_messages.py); knows nothing of how they came or who draws.

import { Round } from "./round.js";
import { withCharacters } from "./split_characters.js";

// One lane of a run: what the header says of it (specviz/records/trace.py), and what has happened in it.
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
    Object.assign(this, header); // and what else the header says of it
    this.header = header;
    /** @type {Token[]} */
    this.tokens = [];
    this.clock = 0;
    /** @type {{ clock: number }[]} */
    this.forwards = []; // of the target, as far as they are known: the prefill, each round, each plain step
    /** @type {any} */
    this.records = { prefill: null, rounds: [], steps: [], arrivals: [], finish: null };
  }

  // A lane that was stopped has not.
  get hasEnded() {
    return this.records.finish !== null;
  }

  get isEngine() {
    return this.kind === "engine";
  }

  get isBaseline() {
    return this.kind === "baseline";
  }

  // A lane that was stopped has no finish.
  /** @param {EventMessage} message */
  keep({ type, record, clock }) {
    this.clock = clock;
    if (type === "origins") return this.tellOrigins(record);
    if (type === "arrival" ? this.isNewForward(record) : type !== "finish") this.forwards.push({ clock });
    if (type === "arrival") this.records.arrivals.push(record);
    else if (type === "step") this.records.steps.push(record);
    else if (type === "round") this.records.rounds.push(record);
    else if (type === "prefill") this.records.prefill = record;
    else if (type === "finish") this.records.finish = record === "stopped" ? null : record;
  }

  // Where its tokens came from, by an engine that says so behind the last one.
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

  // Of a serving engine: whether the token begins what a forward of its target brought, as far as it tells.
  /** @param {EngineTokenRecord} arrival */
  isNewForward({ origin }) {
    return origin !== null && this.records.arrivals.at(-1)?.origin !== "accepted";
  }

  // How many tokens it had at this moment of its own time.
  /** @param {number} moment */
  tokensAt(moment) {
    return countAt(this.tokens, moment);
  }

  // Tokens a second up to this moment, 0 before it began.
  /** @param {number} moment */
  rateAt(moment) {
    const seconds = Math.min(moment, this.clock);
    return seconds > 0 ? this.tokensAt(moment) / seconds : 0;
  }

  // How many forwards of the target it had taken by then.
  /** @param {number} moment */
  forwardsAt(moment) {
    return countAt(this.forwards, moment);
  }
}

// How many of `items`, in the order of their clocks, had happened at a moment.
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

const NO_LANE = new Lane(/** @type {any} */ ({ name: "", kind: "", config: null, draft: null, forks: [] }));

/** @type {((round: Round) => boolean)[]} */
const TELLING = [(round) => round.isWhole && round.isMixed, (round) => round.isWhole && round.outcomes.length > 0];

export class Trace {
  constructor() {
    /** @type {any} null before the run began */
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
    this.figures = null;
    this.ending = null;
    this.isLive = false;
    this.isChain = true; // no round so far has two guesses at one place
  }

  // As it is now: what comes later, or another run in its place, leaves the copy alone.
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

  // The prompt as the target got it, token by token, null where that is but the text that was typed: where a
  // chat template stands around it, more comes behind it, such as the beginning of an answer.
  /** @returns {string[] | null} */
  get templatedPrompt() {
    if (!this.header) return null;
    const { prompt, prompt_ids: ids } = this.header;
    const tokens = ids.map((/** @type {number} */ id) => this.text(id));
    const isTyped = !ids.length || withCharacters(tokens.join("")).trimEnd().endsWith(prompt.trimEnd());
    return isTyped ? null : tokens;
  }

  // What the run is about: the first lane that is not the plain baseline.
  get main() {
    return this.lanes.find((lane) => !lane.isBaseline) ?? NO_LANE;
  }

  get baseline() {
    return this.lanes.find((lane) => lane.isBaseline) ?? NO_LANE;
  }

  /** @param {any} message a NumbersMessage */
  numbers({ kind, summary, figures, reason, beside, waited, drafter_cache_bytes: cache, engines }) {
    for (const [name, facts] of Object.entries(engines ?? {})) {
      const lane = /** @type {Lane} */ (this.lanes.find((each) => each.name === name));
      lane.engine = lane.header.engine = facts;
    }
    if (cache != null) {
      this.main.drafter_cache_bytes = cache;
      this.main.header.drafter_cache_bytes = cache;
    }
    this.summary = summary ?? this.summary;
    this.figures = figures ?? this.figures;
    if (kind === "end" && this.header) Object.assign(this.header, { beside: beside ?? 0, waited: waited ?? null });
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
    else if (message.type === "round") this.addTokens(lane, new Round(message.record, message.clock, {}, {}));
    else if (message.type === "prefill") this.addToken(lane, message, message.record.extra.id, "first");
    else if (message.type === "arrival") this.addToken(lane, message, message.record.id, message.record.origin ?? "unknown");
    else if (message.type === "step") this.addToken(lane, message, message.record.id, "plain", message.record);
  }

  // The tokens that a lane shows to end a text.
  get endIds() {
    const ended = this.lanes.filter(({ records }) => records.finish === "end-of-sequence");
    return ended.flatMap(({ tokens }) => tokens.slice(-1)).map(({ id }) => id);
  }

  /**
   * @param {Lane} lane
   * @param {{ clock: number }} event
   * @param {number} id
   * @param {string} origin
   * @param {{ prob: number } | null} [record] of a plain step
   */
  addToken(lane, { clock }, id, origin, record = null) {
    lane.tokens.push({ id, text: this.text(id), origin, round: -1, node: -1, clock, record });
  }

  // The tokens that a round emitted; `index` is its number where the page shows it, else -1.
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

  // A round's timeline shows the next round too, so each comes again with that one.
  /** @param {Record<number, Figure>} timelines */
  takeTimelines(timelines) {
    for (const [index, figure] of Object.entries(timelines)) this.rounds[Number(index)].figures.timeline = figure;
  }

  /** @param {number} id */
  text(id) {
    return this.texts.get(id) ?? `#${id}`;
  }

  // The setting that made a round: before a fork, that of its parent.
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

  // When the last lane ended, in the race's own seconds.
  get endClock() {
    return Math.max(0, ...this.lanes.map(({ clock }) => clock));
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

  // How many rounds had ended by this moment of the lane's own time.
  /** @param {number} moment */
  roundsAt(moment) {
    return countAt(this.rounds, moment);
  }

  // The main lane's token that a stop became, or -1.
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

  // Where a lane's text first differs from the baseline's, or -1.
  /** @param {Lane} lane */
  differenceOf(lane) {
    const [plain, other] = [this.baseline.tokens, lane.tokens];
    const length = Math.min(plain.length, other.length);
    for (let at = 0; at < length; at += 1) if (plain[at].id !== other[at].id) return at;
    return -1;
  }
}
