// Sentences about the time of a round: what a round costs and gains, and why the target checks
// several tokens in about the time of one.

import { wholePercents } from "./number_words.js";
import { EQUAL, FASTER, verdictOf } from "./speedup_words.js";

// A check that takes more baseline steps than this does not take "about the same" time.
const DEAR = 1.25;
// A later first token is mentioned if its delay exceeds this share of the lane's time.
const SLOW = 0.05;
const WHOLE_RUN = "but a small one for the whole run, which also reads the prompt.";

// Return a sentence on the cost and gain of a round, or "" until both lanes have more than one
// token. The gain is judged by the same rule as the speedup next to it.
/**
 * @param {RunSummaryRecord} summary
 * @param {number[] | null} [speedups] the speedups of several runs
 */
export function timeSentence({ baseline, speculative, speedup }, speedups = null) {
  const rounds = speculative.target_forwards - 1;
  const {
    block_efficiency: brought,
    draft_seconds: draft,
    verify_seconds: verify,
    host_seconds: host,
  } = speculative;
  const step = stepSeconds(baseline);
  if (rounds < 1 || step === null || brought === null) return "";
  const whole = draft + verify + host;
  const cost = whole / rounds / step;
  if (!(cost > 0) || !Number.isFinite(cost)) return "";
  const takes = `A round takes as long as ${cost.toFixed(1)} steps of the baseline`;
  const brings = `brings ${brought.toFixed(2)} tokens`;
  const late = lateWords(baseline, speculative);
  const own = verdictOf(brought / cost);
  const overall = speedup == null ? own : verdictOf(speedup, speedups);
  const isAlike = overall !== EQUAL && brought > cost === (overall === FASTER);
  if (own === EQUAL && !isAlike) return `${takes} and ${brings}: about even.${late}`;
  const isSmall = overall === EQUAL;
  if (brought > cost)
    return `${takes} and ${brings}: ${isSmall ? `a gain, ${WHOLE_RUN}` : "this is a gain."}${late}`;
  const loss = isSmall ? `a loss, ${WHOLE_RUN}` : "a loss.";
  return `${takes}, ${drafting([draft, verify, host])}and ${brings}: ${loss} To break even, it would have to bring ${cost.toFixed(2)}.${late}`;
}

// If the first token came clearly later than in the baseline, return a sentence that says so. The
// speedup includes this delay, but the cost of a round does not. Otherwise return "".
/**
 * @param {BaselineSummaryRecord} baseline
 * @param {SpeculativeSummaryRecord} speculative
 */
function lateWords({ ttft_seconds: plain }, { ttft_seconds: first, seconds }) {
  if (plain === null || first === null || first - plain <= SLOW * seconds) return "";
  return ` The first token took ${milliseconds(first)} instead of ${milliseconds(plain)}, which the speedup includes.`;
}

// Compare the time of one verification with the time of one baseline step. `tokens` is the mean
// number of tokens per forward of the target.
/**
 * @param {RunSummaryRecord} summary
 * @param {number} tokens
 */
export function checkSentence({ baseline, speculative }, tokens) {
  const rounds = speculative.target_forwards - 1;
  const step = stepSeconds(baseline);
  if (rounds < 1 || step === null || !(tokens >= 1.5)) return "";
  const check = speculative.verify_seconds / rounds;
  const took = `Checking ${tokens.toFixed(1).replace(/\.0$/, "")} tokens in one forward took ${meanMilliseconds(check)}, and writing a single token took ${meanMilliseconds(step)}`;
  if (check > DEAR * step)
    return `${took}. Both read every weight once, but more tokens need more arithmetic.`;
  return `${took}. Both read every weight once, which is a large part of the work.`;
}

// Return the baseline's seconds per token after the first token, or null if it has only one token.
/** @param {BaselineSummaryRecord} baseline */
function stepSeconds({ tokens, seconds, ttft_seconds: first }) {
  return tokens > 1 ? (seconds - (first ?? 0)) / (tokens - 1) : null;
}

// Write a single measured time with two significant digits.
/** @param {number} seconds */
export function milliseconds(seconds) {
  return `${Number((seconds * 1000).toPrecision(2))} ms`;
}

// Write a mean over rounds or steps with three significant digits, like the chart next to it.
/** @param {number} seconds */
export function meanMilliseconds(seconds) {
  const value = seconds * 1000;
  return `${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)} ms`;
}

// Return the share of the time that drafting takes, in words, or "" if it is small.
/** @param {number[]} parts seconds of drafting, of verification, and of the rest */
function drafting(parts) {
  const whole = parts.reduce((sum, each) => sum + each, 0);
  const [draft] = wholePercents(parts.map((each) => each / whole));
  return draft > 10 ? `${draft} % of it drafting, ` : "";
}
