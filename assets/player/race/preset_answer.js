// The answer of an experiment, from what its runs have measured: the sentence of the run that leads, or of those that
// are too close to tell apart, then what holds in any case. The words are in specviz/ui/class_presets.py.

import { NOISE, speedupScope, speedupText } from "../shared/speedup_words.js";

const CERTAIN = 2; // standard errors between two shares, from which the larger one leads
const VALUES = /\{(\w+)\.(\d)\}/g;

/** @type {Record<string, (run: RunSummaryRecord) => number | null>} */
const MEASURES = {
  speedup: ({ speedup }) => speedup,
  acceptance: ({ speculative }) => speculative.acceptance_rate,
  used: ({ speculative }) => speculative.draft_utilization,
  tokens: ({ speculative }) => speculative.block_efficiency,
};

/** @type {Record<string, (value: number | null) => string>} */
const WRITTEN = { speedup: speedupText, acceptance: share, used: share, tokens: (value) => (value === null ? "–" : value.toFixed(2)) };

/** @type {Record<string, (most: RunSummaryRecord, next: RunSummaryRecord) => boolean>} whether one has more than another beyond chance */
const IS_MORE = {
  // each may differ by as much from run to run, and what is shown decides: nobody sees other digits
  speedup: (most, next) => rounded(shown(most.speedup) - shown(next.speedup)) > 2 * NOISE,
  acceptance: (most, next) => {
    const [a, b] = [most, next].map(({ speculative }) => examined(speculative));
    const error = Math.sqrt(a.rate * (1 - a.rate) / a.count + b.rate * (1 - b.rate) / b.count);
    return a.rate - b.rate > CERTAIN * error;
  },
};

/**
 * @param {Pick<ClassPreset, "finding" | "lesson">} preset
 * @param {RunSummaryRecord[]} runs in the order of its runs
 */
export function presetAnswer({ finding, lesson }, runs) {
  return [found(finding, runs), lesson].filter(Boolean).map((sentence) => filled(sentence, runs)).join(" ");
}

// Nothing where a run has too little to be measured.
/**
 * @param {ClassPreset["finding"]} finding
 * @param {RunSummaryRecord[]} runs
 */
function found({ measure, leads, close }, runs) {
  const values = runs.map(MEASURES[measure]);
  if (values.includes(null)) return "";
  const order = runs.map((_, at) => at).sort((a, b) => Number(values[b]) - Number(values[a]));
  return IS_MORE[measure](runs[order[0]], runs[order[1]]) ? leads[order[0]] : close;
}

/**
 * @param {string} sentence
 * @param {RunSummaryRecord[]} runs
 */
function filled(sentence, runs) {
  return sentence.replace(VALUES, (_, measure, at) => WRITTEN[measure](MEASURES[measure](runs[Number(at)])));
}

// "1.4× the baseline’s speed over all 128 tokens · 61 % of the examined guesses accepted · …"; where the speedup is of
// fewer tokens than were written, the other numbers say that they are of all.
/**
 * @param {RunSummaryRecord} summary
 * @param {number} temperature
 */
export function measured(summary, temperature) {
  const { speedup, speculative, identical } = summary;
  const scope = speedupScope(summary);
  const rate = speculative.acceptance_rate;
  const over = scope ? scope.slice(1) : ` over all ${speculative.tokens} tokens`;
  const parts = [
    speedup === null ? "nothing to compare" : `${speedupText(speedup)} the baseline’s speed${over}`,
    `${scope ? `of all ${speculative.tokens} tokens: ` : ""}${rate === null ? "nothing guessed" : `${share(rate)} of the examined guesses accepted`}`,
  ];
  if (speculative.block_efficiency !== null) parts.push(`${speculative.block_efficiency.toFixed(2)} tokens per target forward`);
  if (temperature === 0) parts.push(identical ? "text identical" : "text differs");
  return parts.join(" · ");
}

/** @param {SpeculativeSummaryRecord} run */
function examined({ acceptance_by_depth: depths, acceptance_rate: rate }) {
  return { rate: rate ?? 0, count: depths.reduce((sum, { reached }) => sum + reached, 0) };
}

/** @param {number | null} speedup */
function shown(speedup) {
  return Number((speedup ?? 0).toFixed(1));
}

// 0.3 and not 0.30000000000000004.
/** @param {number} difference */
function rounded(difference) {
  return Number(difference.toFixed(1));
}

/** @param {number | null} value */
function share(value) {
  return value === null ? "none" : `${Math.round(100 * value)} %`;
}
