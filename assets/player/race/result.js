// The numbers of a race in words: speedup, statistics, and the verdict on the texts.

import { element, setText } from "../shared/dom.js";
import { bytes, heldMemory } from "../shared/memory_words.js";
import { counted } from "../shared/number_words.js";
import { termButton } from "../shared/terms.js";
import {
  disturbedWords,
  exceeded,
  FEW_TOKENS,
  serverSpeedupWords,
  speedupOfLanes,
  speedupScope,
  speedupText,
  speedupWord,
  spreadWords,
} from "../shared/speedup_words.js";
import { checkSentence, milliseconds, timeSentence } from "../shared/time_words.js";

const NOTHING = "–";
const WHOLE = ", over the whole run";

export class Result {
  /**
   * @param {Refs} refs
   * @param {Glossary} glossary
   */
  constructor(refs, glossary) {
    this.refs = refs;
    this.glossary = glossary;
    this.draftBytes = 0; // size of the pair's draft model in bytes
    /** @type {number[] | null} speedups of several runs, whose median is shown */
    this.speedups = null;
    /** @type {number[] | null} speedups of the servers in the same runs */
    this.serverSpeedups = null;
    this.disturbed = 0; // number of runs that were repeated because of an impossible speedup
    this.scope = "";
    this.clear();
  }

  // `command` is a command line that repeats the race; null if it is unknown.
  /** @param {string | null} command */
  setCommand(command) {
    this.command = command;
    this.refs.repeatHint.hidden = !command;
    this.refs.repeatCommand.replaceChildren(...unbroken(command ?? ""));
  }

  clear() {
    setText(this.refs.speedup, NOTHING);
    this.refs.speedupWord.textContent = "press Race to measure";
    this.refs.speedupSpread.hidden = true;
    this.refs.textVerdict.replaceChildren();
    for (const line of [this.refs.timeWords, this.refs.checkWords]) line.hidden = true;
    this.refs.stats.replaceChildren();
    setText(this.refs.statsOf, "");
    this.speedups = this.serverSpeedups = null;
    this.disturbed = 0;
    show(this.refs.serverSpeedup, "");
    show(this.refs.disturbed, "");
    show(this.refs.copyWords, "");
  }

  // Say that the speedup covers the whole run, because the lanes show only a part of it.
  drawWhole() {
    const { speedupWord: line } = this.refs;
    if (!this.scope && !line.textContent.endsWith(WHOLE))
      setText(line, `${line.textContent}${WHOLE}`);
  }

  // `loss` says in words that the rule is lossy. It is "" for a lossless rule.
  /**
   * @param {RunSummaryRecord} summary
   * @param {Trace} trace
   * @param {string | null} ending
   */
  draw(summary, trace, ending, loss = "") {
    const { refs } = this;
    const isWhole = ending !== null && ending !== "stopped";
    const speedup = !isWhole && summary.speedup_tokens < FEW_TOKENS ? null : summary.speedup;
    const scope = isWhole ? speedupScope(summary) : (speedupOfLanes(trace, Infinity)?.rates ?? "");
    this.scope = speedup === null ? "" : scope; // the part of the run that the speedup covers, "" for all of it
    setText(refs.speedup, speedupText(speedup, this.speedups));
    setText(refs.speedupWord, `${speedupWord(speedup, ending, this.speedups)}${this.scope}`);
    if (ending === null) this.drawLive(trace, Infinity);
    show(refs.copyWords, trace.copyWords);
    show(
      refs.disturbed,
      disturbedWords(speedup === null ? "" : exceeded(speedup, summary.speedup_limit)),
    );
    setText(refs.spreadWords, spreadWords(this.speedups, trace.header, this.disturbed));
    refs.speedupSpread.hidden = speedup === null || ending === null;
    setText(refs.statsOf, ending === null ? "So far:" : "Of the whole run:");
    for (const name of ["timesOf", "depthOf"])
      setText(refs[name], ending === null ? "so far" : "of the whole run");
    this.isGreedy = trace.main.config.temperature === 0;
    refs.textVerdict.hidden = false;
    refs.textVerdict.replaceChildren(
      ...this.verdictParts(textVerdict(summary, trace.main, ending, loss)),
    );
    show(refs.serverSpeedup, serverSpeedupWords(trace, this.serverSpeedups));
    show(refs.timeWords, timeSentence(summary, this.speedups));
    show(refs.checkWords, checkSentence(summary, meanChecked(trace)));
    refs.stats.replaceChildren(
      ...statistics(summary, trace, this.draftBytes).map((each) => this.row(each)),
    );
  }

  // While the race runs, show the speedup at the moment that the lanes show. It is computed from
  // the lanes, because the server's last summary may be older than this moment.
  /**
   * @param {Trace} trace
   * @param {number} moment
   */
  drawLive(trace, moment) {
    const known = speedupOfLanes(trace, moment);
    setText(this.refs.speedup, speedupText(known?.speedup ?? null));
    setText(
      this.refs.speedupWord,
      known ? `the baseline’s speed so far${known.rates}` : speedupWord(null, null),
    );
  }

  // Show the speedup so far during a replay. The verdict on the texts is hidden until the texts are
  // complete. All other numbers stay those of the whole run.
  /** @param {SpeedupSoFar} replayed */
  drawReplayed({ speedup, tokens, limit }) {
    const known = tokens < FEW_TOKENS ? null : speedup;
    this.refs.textVerdict.hidden = this.isGreedy;
    this.refs.serverSpeedup.hidden = true;
    setText(this.refs.speedup, speedupText(known));
    setText(
      this.refs.speedupWord,
      known === null ? "from its start …" : `${speedupWord(known, null)}, so far`,
    );
    show(this.refs.disturbed, disturbedWords(known === null ? "" : limit));
  }

  /** @param {{ label: string, value: string, term: string }} given */
  row({ label, term, value }) {
    const row = element("div");
    const name = element("dt");
    name.append(this.glossary[term] ? termButton(label, term) : label);
    row.append(name, element("dd", "", value));
    return row;
  }

  // Return the parts of the verdict on the two texts, or nothing until they can be compared.
  /** @param {TextVerdict | null} verdict */
  verdictParts(verdict) {
    if (!verdict) return [];
    const { value, label, tone, term, link } = verdict;
    const shown = element(link ? "a" : "b", tone ?? "", value);
    if (link) /** @type {HTMLAnchorElement} */ (shown).href = link;
    return [
      "· ",
      shown,
      label.startsWith(":") ? "" : " ",
      term && this.glossary[term] ? termButton(label, term) : label,
    ];
  }
}

// Put each word of the command in an element of its own. Otherwise the browser breaks lines after
// the hyphens of a flag.
/** @param {string} command */
function unbroken(command) {
  return command.split(" ").flatMap((word, index) => [index ? " " : "", element("span", "", word)]);
}

/**
 * @param {RunSummaryRecord | null} summary
 * @param {Trace | null} trace
 * @param {number} [draftBytes]
 */
function statistics(summary, trace, draftBytes = 0) {
  const baseline = summary?.baseline;
  const speculative = summary?.speculative;
  return [
    {
      label: "acceptance rate α: accepted / examined",
      term: "acceptance_rate",
      value: ratio(speculative?.acceptance_rate),
    },
    {
      label: "draft utilization: accepted / drafted",
      term: "draft_utilization",
      value: ratio(speculative?.draft_utilization),
    },
    {
      label: "tokens per target forward τ",
      term: "block_efficiency",
      value: ratio(speculative?.block_efficiency),
    },
    {
      label: "target forwards, for tokens after the first",
      term: "target_forward",
      value: forwards(speculative),
    },
    ...free(speculative, trace),
    ...reading(baseline),
    {
      label: firstTokenLabel(baseline, speculative),
      term: "ttft",
      value: speculative?.ttft_seconds == null ? NOTHING : milliseconds(speculative.ttft_seconds),
    },
    memory(trace, draftBytes),
  ];
}

// Return how many tokens of the text were free because the grammar forced them. Return no statistic
// without a grammar.
/**
 * @param {SpeculativeSummaryRecord | undefined} speculative
 * @param {Trace | null} trace
 */
export function free(speculative, trace) {
  if (!speculative || !trace?.main.config.grammar) return [];
  return [
    {
      label: "free tokens, which the grammar forced",
      term: "forced_token",
      value: `${speculative.forced_tokens} of ${speculative.tokens}`,
    },
  ];
}

// Return the statistic that compares the time of a baseline step with the time to read the weights
// from memory. Return no statistic if the run did not measure the memory's speed, as in recordings
// of older versions.
/** @param {BaselineSummaryRecord | undefined} baseline */
export function reading(baseline) {
  const share = baseline?.reading_share;
  if (share == null) return [];
  const cached =
    share > 1
      ? ": its weights came from the processor’s cache, or other work slowed the measurement of the limit"
      : "";
  return [
    {
      label: `of the reading limit reached by the baseline${cached}`,
      term: "reading_limit",
      value: `${Math.round(100 * share)} %`,
    },
  ];
}

/**
 * @param {BaselineSummaryRecord | undefined} baseline
 * @param {SpeculativeSummaryRecord | undefined} speculative
 */
function firstTokenLabel(baseline, speculative) {
  const [plain, drafted] = [baseline?.ttft_seconds, speculative?.ttft_seconds];
  if (plain == null || drafted == null) return "time to first token";
  return `time to first token; the baseline’s: ${milliseconds(plain)}`;
}

// Return the number of target forwards and the number of tokens that they produced, such as
// "20 for 63". The prompt's own forward and the first token are not counted, because they are the
// same in both lanes.
/** @param {SpeculativeSummaryRecord | undefined} speculative */
function forwards(speculative) {
  return speculative
    ? `${Math.max(0, speculative.target_forwards - 1)} for ${Math.max(0, speculative.tokens - 1)}`
    : NOTHING;
}

// Return the mean number of tokens that the target checks in one forward: the drafted tokens, the
// root, and the tokens of the lookahead window if there is one.
/** @param {Trace} trace */
function meanChecked({ rounds }) {
  const given = rounds.map(
    ({ outcomes, record: { notes } }) => outcomes.length + 1 + windowOf(notes),
  );
  return given.reduce((sum, count) => sum + count, 0) / rounds.length;
}

/** @param {NoteRecord[]} notes */
export function windowOf(notes) {
  return notes.reduce(
    (sum, each) => sum + (each.note === "lookahead-state" ? each.token_ids.length : 0),
    0,
  );
}

/**
 * @param {HTMLElement} line
 * @param {string} text
 */
function show(line, text) {
  setText(line, text);
  line.hidden = !text;
}

/** @typedef {{ value: string, label: string, tone?: string, term?: string, link?: string }} TextVerdict */
/** @typedef {import("./speedup_curve.js").SpeedupSoFar} SpeedupSoFar */

// Return the verdict on the two texts, or null until there is something to compare. Above
// temperature 0 both texts are random, so the verdict is never "same" or "identical". A lossy rule
// does not keep the distribution.
/**
 * @param {RunSummaryRecord | null} summary
 * @param {Lane | undefined} lane
 * @param {string | null} ending
 * @returns {TextVerdict | null}
 */
export function textVerdict(summary, lane, ending, loss = "") {
  if (!summary || !lane || !Math.min(summary.baseline.tokens, summary.speculative.tokens))
    return null;
  if (lane.config.temperature > 0 && loss) {
    const distance = lane.total_variation;
    const label =
      distance == null
        ? "this rule does not keep the target’s distribution"
        : `total variation ${distance.toFixed(2)} from the target’s distribution, as measured`;
    return { label: `${label}.`, value: "▲ lossy:", tone: "bad", term: "typical_acceptance" };
  }
  if (lane.config.temperature > 0) {
    return {
      value: "Same distribution",
      label: ": above temperature 0 each lane draws by chance, so the words may differ.",
      link: "#why-exact",
    };
  }
  const { first_divergence: difference, identical, compared } = summary;
  if (difference) {
    const margin = difference.margin;
    const tie = margin !== null && margin < 1e-3 ? ", a numerical tie" : "";
    const gap =
      margin === null ? "the baseline had ended" : `margin ${margin.toPrecision(2)}${tie}`;
    return {
      value: "The texts differ",
      label: `from token ${difference.index + 1} on: ${gap}.`,
      tone: "bad",
      term: "margin",
    };
  }
  const isOver = ending && ending !== "stopped";
  const lengths = summary.baseline.tokens === summary.speculative.tokens;
  const all = isOver && lengths ? summary.baseline.tokens : compared;
  if (!identical) return null;
  return {
    value: "Identical text:",
    label: isOver
      ? `${compared} of ${all} tokens.`
      : `the first ${counted(compared, "token")}, which both have.`,
    tone: "good",
  };
}

/** @param {number | null | undefined} value */
function ratio(value) {
  return value == null ? NOTHING : value.toFixed(2);
}

// Return the memory that the method needs in addition to the target, which both lanes need. If the
// method has no draft model, also say how much memory the pair's draft model would need.
/**
 * @param {any} trace
 * @param {number} [draftBytes]
 */
export function memory(trace, draftBytes = 0) {
  const term = "drafter_memory";
  if (!trace) return { label: "memory added to the target’s", term, value: NOTHING };
  const {
    header: { target, dtype },
    main: { drafter_bytes: count, drafter_cache_bytes: cache, draft },
  } = trace;
  const spared = draft ? 0 : draftBytes;
  const other = spared ? `; the pair’s draft model, not used here, would add ${bytes(spared)}` : "";
  const held = heldMemory(count, cache);
  const value = count || cache ? `+${held.sum}` : "0 MB";
  const added = `added to the target’s ${targetWords(target, dtype)}${other}`;
  if (cache == null) return { label: `weights ${added}`, term, value };
  const parts = `${count ? held.weights : "no"} weights and ${cache ? held.cache : "no"} cache`;
  return { label: `${parts} ${added}`, term, value };
}

/** @type {Record<string, number>} */
const WIDTHS = { float32: 4, bfloat16: 2, float16: 2 }; // bytes per weight

// Return the target's memory in words. If the CPU keeps packed copies of some weights, they are
// listed separately.
/**
 * @param {ModelInfoRecord} target
 * @param {string} dtype
 */
function targetWords({ bytes: held, parameters }, dtype) {
  const weights = (parameters ?? 0) * (WIDTHS[dtype] ?? 0);
  const packed = held - weights;
  if (!weights || packed < held / 100) return bytes(held);
  return `${bytes(held)}: ${bytes(weights)} of weights, and a copy of some of them, ${bytes(packed)}, packed for the processor`;
}
