// The numbers of a race in words: speedup, statistics, the verdict on the text.

import { element, setText } from "../shared/dom.js";

const NOTHING = "–";

export class Result {
  /**
   * @param {Refs} refs
   * @param {Glossary} glossary
   */
  constructor(refs, glossary) {
    this.refs = refs;
    this.glossary = glossary;
    /** @type {any} */
    this.pair = null; // of the race, as the server's setup describes it
    this.clear();
  }

  // `command` runs the same race again and again; null where it is not known.
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
    this.refs.stats.replaceChildren(...statistics(null, null, null).map((each) => this.row(each)));
  }

  // `loss` says that the rule was a lossy one, "" for a lossless one.
  /**
   * @param {RunSummaryRecord} summary
   * @param {Trace} trace
   * @param {string | null} ending
   */
  draw(summary, trace, ending, loss = "") {
    const { speedup } = summary;
    setText(this.refs.speedup, speedup === null ? NOTHING : `${speedup.toFixed(2)}×`);
    setText(this.refs.speedupWord, speedupWord(speedup, ending));
    this.refs.speedupSpread.hidden = speedup === null;
    this.refs.stats.replaceChildren(...statistics(summary, trace, ending, loss, this.pair).map((each) => this.row(each)));
  }

  /** @param {{ label: string, value: string, term?: string, tone?: string, wide?: boolean, link?: string | null }} given */
  row({ label, term, value, tone = "", wide = false, link = null }) {
    const row = element("div", wide ? "wide" : "");
    const meaning = this.glossary[term ?? ""];
    if (meaning) row.title = [meaning.definition, meaning.formula].filter(Boolean).join("\n");
    const shown = element("dd", tone, link ? "" : value);
    if (link) {
      const anchor = element("a", "", value);
      anchor.href = link;
      shown.append(anchor);
    }
    row.append(element("dt", "", label), shown);
    return row;
  }
}

// Each word in a box of its own, for else a browser breaks a line behind the hyphens of a flag.
/** @param {string} command */
function unbroken(command) {
  return command.split(" ").flatMap((word, index) => [index ? " " : "", element("span", "", word)]);
}

/**
 * @param {number | null} speedup
 * @param {string | null} ending
 */
function speedupWord(speedup, ending) {
  if (speedup === null) return ending === "stopped" ? "stopped before there was anything to compare" : "measuring …";
  const word = speedup >= 1.005 ? "faster" : speedup <= 0.995 ? "slower: drafting and verifying cost more than they saved" : "no gain";
  return ending === "stopped" ? `${word}, up to where it was stopped` : word;
}

/**
 * @param {RunSummaryRecord | null} summary
 * @param {Trace | null} trace
 * @param {string | null} ending
 * @param {any} [pair]
 */
function statistics(summary, trace, ending, loss = "", pair = null) {
  const baseline = summary?.baseline;
  const speculative = summary?.speculative;
  return [
    { label: "acceptance rate α", term: "acceptance_rate", value: ratio(speculative?.acceptance_rate) },
    { label: "tokens per target forward τ", term: "block_efficiency", value: ratio(speculative?.block_efficiency) },
    {
      label: "target forwards / tokens",
      term: "target_forward",
      value: speculative ? `${speculative.target_forwards} / ${speculative.tokens}` : NOTHING,
    },
    { label: firstTokenLabel(baseline, speculative), term: "ttft", value: milliseconds(speculative?.ttft_seconds) },
    memory(trace, pair),
    textVerdict(summary, trace?.main, ending, loss),
  ];
}

/**
 * @param {BaselineSummaryRecord | undefined} baseline
 * @param {SpeculativeSummaryRecord | undefined} speculative
 */
function firstTokenLabel(baseline, speculative) {
  const [plain, drafted] = [baseline?.ttft_seconds, speculative?.ttft_seconds];
  if (plain == null || drafted == null) return "time to first token";
  const more = (drafted - plain) * 1000;
  return `first token (${more < 0 ? "−" : "+"}${Math.abs(more).toFixed(1)} ms)`;
}

// Above temperature 0 the texts differ by chance: never "identical". A lossy rule does not keep the distribution.
/**
 * @param {RunSummaryRecord | null} summary
 * @param {Lane | undefined} lane
 * @param {string | null} ending
 */
export function textVerdict(summary, lane, ending, loss = "") {
  if (!summary || !lane) return { label: "same text?", value: NOTHING };
  if (lane.config.temperature > 0 && loss) {
    const distance = lane.total_variation;
    const label = distance == null ? "this rule does not keep the target’s distribution" : `total variation ${distance.toFixed(2)} from the target’s law, as measured`;
    return { label, value: "▲ lossy", tone: "bad", term: "typical_acceptance" };
  }
  if (lane.config.temperature > 0) {
    return { label: "the texts differ by chance: proof", value: "same distribution", link: "#why-exact" };
  }
  const { first_divergence: difference, identical, compared } = summary;
  if (difference) {
    const margin = difference.margin;
    const tie = margin !== null && margin < 1e-3 ? ", a numerical tie" : "";
    const gap = margin === null ? "the baseline has ended" : `margin ${margin.toPrecision(2)}${tie}`;
    const label = `first difference at token ${difference.index + 1}, ${gap}`;
    return { label, value: "differs", tone: "bad", term: "margin" };
  }
  const isOver = ending && ending !== "stopped";
  const lengths = summary.baseline.tokens === summary.speculative.tokens;
  const all = isOver && lengths ? summary.baseline.tokens : compared;
  return identical
    ? { label: isOver ? `${compared} of ${all} tokens` : `the first ${compared} tokens compared`, value: "identical", tone: "good" }
    : { label: "same text?", value: NOTHING };
}

/** @param {number | null | undefined} value */
function ratio(value) {
  return value == null ? NOTHING : value.toFixed(2);
}

/** @param {number | null | undefined} seconds */
export function milliseconds(seconds) {
  if (seconds == null) return NOTHING;
  const value = seconds * 1000;
  return `${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)} ms`;
}

// What the method holds beside the target, which both lanes need; without a draft model also what
// the pair's would take.
/**
 * @param {any} trace
 * @param {{ draft_bytes: Record<string, number> | null } | null} pair
 */
export function memory(trace, pair = null) {
  const term = "drafter_memory";
  if (!trace) return { label: "weights beside the target", term, value: NOTHING };
  const { header: { target, dtype }, main: { drafter_bytes: count, drafter_cache_bytes: cache, draft } } = trace;
  const spared = draft ? 0 : (pair?.draft_bytes?.[dtype] ?? 0);
  const other = spared ? `; the draft model would take ${bytes(spared)}` : "";
  const value = (/** @type {any} */ held) => (held ? `+${bytes(held)}` : "0 MB");
  const beside = `beside the target’s ${bytes(target.bytes)}${other}`;
  if (cache == null) return { label: `weights ${beside}`, term, value: value(count) };
  const parts = `${count ? bytes(count) : "no"} weights and ${cache ? bytes(cache) : "no"} cache`;
  return { label: `${parts} ${beside}`, term, value: value(count + cache) };
}

/** @param {number} count */
export function bytes(count) {
  const megabytes = count / 1e6;
  if (megabytes >= 1000) return `${(megabytes / 1000).toFixed(1)} GB`;
  if (megabytes < 0.1) return `${(count / 1000).toFixed(1)} kB`;
  return `${megabytes.toFixed(megabytes >= 10 ? 0 : 1)} MB`;
}
