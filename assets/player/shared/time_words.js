// Where the time of a round goes, in a sentence each: what a round costs and what it brings, and why the
// target checks several tokens in about the time of one.

import { wholePercents } from "./number_words.js";
import { EQUAL, FASTER, verdictOf } from "./speedup_words.js";

const DEAR = 1.25; // times a step: from there on it is not about the same
const SLOW = 0.05; // of a lane's time: from there on a later first token is told
const WHOLE_RUN = "but a small one over the whole run, the reading of the prompt included.";

// "" until both lanes have gone on from their first token. What a round gains or loses is judged as the speedup beside
// it is, with the same limit.
/**
 * @param {RunSummaryRecord} summary
 * @param {number[] | null} [speedups] of several runs
 */
export function timeSentence({ baseline, speculative, speedup }, speedups = null) {
  const rounds = speculative.target_forwards - 1;
  const { block_efficiency: brought, draft_seconds: draft, verify_seconds: verify, host_seconds: host } = speculative;
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
  const isAlike = overall !== EQUAL && (brought > cost) === (overall === FASTER);
  if (own === EQUAL && !isAlike) return `${takes} and ${brings}: about even.${late}`;
  const isSmall = overall === EQUAL;
  if (brought > cost) return `${takes} and ${brings}: ${isSmall ? `a gain, ${WHOLE_RUN}` : "that is the gain."}${late}`;
  const loss = isSmall ? `a loss, ${WHOLE_RUN}` : "a loss.";
  return `${takes}, ${drafting([draft, verify, host])}and ${brings}: ${loss} To break even it would have to bring ${cost.toFixed(2)}.${late}`;
}

// A first token that came clearly later than the baseline's, which the speedup counts and a round does not.
/**
 * @param {BaselineSummaryRecord} baseline
 * @param {SpeculativeSummaryRecord} speculative
 */
function lateWords({ ttft_seconds: plain }, { ttft_seconds: first, seconds }) {
  if (plain === null || first === null || first - plain <= SLOW * seconds) return "";
  return ` The first token took ${milliseconds(first)}, against ${milliseconds(plain)}: the speedup counts that, too.`;
}

// What checking took, beside a step of the baseline. `tokens`: how many a forward of the target was given, on
// average.
/**
 * @param {RunSummaryRecord} summary
 * @param {number} tokens
 */
export function checkSentence({ baseline, speculative }, tokens) {
  const rounds = speculative.target_forwards - 1;
  const step = stepSeconds(baseline);
  if (rounds < 1 || step === null || !(tokens >= 1.5)) return "";
  const check = speculative.verify_seconds / rounds;
  const took = `Checking ${tokens.toFixed(1).replace(/\.0$/, "")} tokens in one forward took ${meanMilliseconds(check)}, writing one alone ${meanMilliseconds(step)}`;
  if (check > DEAR * step) return `${took}: every weight is read once either way, but more tokens are more to compute.`;
  return `${took}: every weight is read once either way, and that is much of the work.`;
}

// Seconds of a token that the baseline writes, after the first; null until there is one.
/** @param {BaselineSummaryRecord} baseline */
function stepSeconds({ tokens, seconds, ttft_seconds: first }) {
  return tokens > 1 ? (seconds - (first ?? 0)) / (tokens - 1) : null;
}

// One reading of a clock: two digits.
/** @param {number} seconds */
export function milliseconds(seconds) {
  return `${Number((seconds * 1000).toPrecision(2))} ms`;
}

// A mean over the rounds, or over the steps: three digits, as the bars beside it have.
/** @param {number} seconds */
export function meanMilliseconds(seconds) {
  const value = seconds * 1000;
  return `${value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2)} ms`;
}

// "" where drafting is little of it.
/** @param {number[]} parts seconds of drafting, verifying, and the rest */
function drafting(parts) {
  const whole = parts.reduce((sum, each) => sum + each, 0);
  const [draft] = wholePercents(parts.map((each) => each / whole));
  return draft > 10 ? `${draft} % of it drafting, ` : "";
}
