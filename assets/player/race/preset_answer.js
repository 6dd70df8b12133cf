// The answer of an experiment, computed from the results of its races. It begins with the sentence
// about the race that leads clearly, or with the sentence for a close result. A last sentence,
// which is true for every result, follows. The sentences are in specviz/ui/class_presets.py.

import { NOISE, speedupScope, speedupText } from "../shared/speedup_words.js";

const CERTAIN = 2; // smallest difference that counts as a lead, in standard errors
const VALUES = /\{(\w+)\.(\d)\}/g;

/** @type {Record<string, (run: RunSummaryRecord) => number | null>} */
const MEASURES = {
  speedup: ({ speedup }) => speedup,
  acceptance: ({ speculative }) => speculative.acceptance_rate,
  used: ({ speculative }) => speculative.draft_utilization,
  tokens: ({ speculative }) => speculative.block_efficiency,
};

/** @type {Record<string, (value: number | null) => string>} */
const WRITTEN = {
  speedup: speedupText,
  acceptance: share,
  used: share,
  tokens: (value) => (value === null ? "–" : value.toFixed(2)),
};

/** @type {Record<string, (most: RunSummaryRecord, next: RunSummaryRecord) => boolean>} whether the first run's value exceeds the second's by more than chance */
const IS_MORE = {
  // Each speedup varies by about NOISE from run to run. The rounded values are compared, because
  // the page shows only them.
  speedup: (most, next) => rounded(shown(most.speedup) - shown(next.speedup)) > 2 * NOISE,
  acceptance: (most, next) => {
    const [a, b] = [most, next].map(({ speculative }) => examined(speculative));
    const error = Math.sqrt((a.rate * (1 - a.rate)) / a.count + (b.rate * (1 - b.rate)) / b.count);
    return a.rate - b.rate > CERTAIN * error;
  },
};

/**
 * @param {Pick<ClassPreset, "finding" | "lesson">} preset
 * @param {RunSummaryRecord[]} runs one result per race of the experiment, in the same order
 */
export function presetAnswer({ finding, lesson }, runs) {
  return [found(finding, runs), lesson]
    .filter(Boolean)
    .map((sentence) => filled(sentence, runs))
    .join(" ");
}

// Return the sentence about the race that leads, or about a close result. Return "" if one of the
// races has too few tokens for the quantity that the experiment compares.
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
  return sentence.replace(VALUES, (_, measure, at) =>
    WRITTEN[measure](MEASURES[measure](runs[Number(at)])),
  );
}

// Return the numbers of a race in one line, such as "1.4× the baseline’s speed over all 128 tokens
// · acceptance rate 61 % · …".
/**
 * @param {RunSummaryRecord} summary
 * @param {number} temperature
 */
export function measured(summary, temperature) {
  const { speedup, speculative, identical } = summary;
  const scope = speedupScope(summary);
  const rate = speculative.acceptance_rate;
  const over = scope || ` over all ${speculative.tokens} tokens`;
  const parts = [
    speedup === null ? "nothing to compare" : `${speedupText(speedup)} the baseline’s speed${over}`,
    rate === null ? "nothing guessed" : `acceptance rate ${share(rate)}`,
  ];
  if (speculative.block_efficiency !== null)
    parts.push(`${speculative.block_efficiency.toFixed(2)} tokens per target forward`);
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

// Round away floating-point errors: 0.3 instead of 0.30000000000000004.
/** @param {number} difference */
function rounded(difference) {
  return Number(difference.toFixed(1));
}

/** @param {number | null} value */
function share(value) {
  return value === null ? "none" : `${Math.round(100 * value)} %`;
}
