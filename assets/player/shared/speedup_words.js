// The speedup in words, for one run, whose times are noisy, or for several runs with their spread.

import { counted, measuredWords, rateText } from "./number_words.js";

export const NOISE = 0.1; // usual difference between the speedups of two runs with the same settings
export const FEW_TOKENS = 8; // smallest number of tokens with which a run has a speedup
const BASELINE = "the baseline’s speed";
export const EQUAL = "about equal";
export const FASTER = "faster";
const ROUNDING = 1e-9; // tolerance for rounding: 1.1 - 0.1 is a little more than 1

/** @param {number[]} speedups */
export function middleOf(speedups) {
  return [...speedups].sort((a, b) => a - b)[Math.floor((speedups.length - 1) / 2)];
}

// Warn about an impossible speedup. `limit` is the largest possible speedup as text, or "" if the
// speedup is possible.
/** @param {string} limit */
export function disturbedWords(limit) {
  return limit
    ? `Disturbed: ${limit} tokens per forward allow no more than ${limit}×, so other work slowed a lane. Race again.`
    : "";
}

// Return the limit of a speedup as text if the speedup exceeds it, otherwise "". `exceeds` of
// specviz/metrics/speedup_curve.py is the same rule in Python.
/**
 * @param {number} speedup
 * @param {number | null} limit
 */
export function exceeded(speedup, limit) {
  return limit != null && speedup > limit * (1 + ROUNDING) ? limit.toFixed(2) : "";
}

// Write a speedup. If it comes from a single run, write one decimal, because single runs are too
// noisy for more. For several runs, write two.
/**
 * @param {number | null} speedup
 * @param {number[] | null} [speedups] the speedups of all runs
 */
export function speedupText(speedup, speedups = null) {
  if (speedup === null) return "–";
  return `${speedup.toFixed(speedups ? 2 : 1)}×`;
}

/**
 * @param {number | null} speedup
 * @param {string | null} ending
 * @param {number[] | null} [speedups]
 * @param {string} [of] the lane whose speed is 1
 */
export function speedupWord(speedup, ending, speedups = null, of = BASELINE) {
  if (speedup === null)
    return ending === "stopped" ? "stopped too early to compare" : "measuring …";
  const verdict = speedups ? ofSeveral(speedup, speedups) : verdictOf(speedup);
  const word = `${of}: ${verdict}`;
  return ending === "stopped" && !speedups ? `${word}, up to where it was stopped` : word;
}

// Say how many tokens each lane wrote, or return "" if both wrote the same number.
/** @param {Pick<RunSummaryRecord, "baseline" | "speculative" | "speedup_tokens">} summary */
export function speedupScope({ baseline, speculative, speedup_tokens: tokens }) {
  const isOfAll = tokens === baseline.tokens && tokens === speculative.tokens;
  return isOfAll || !tokens ? "" : `, ${speculative.tokens} tokens against ${baseline.tokens}`;
}

// Return the speedup up to a moment, and the two rates from which it is computed. Both lanes show
// the same rates at that moment. Return null before both have enough tokens.
/**
 * @param {Pick<Trace, "main" | "baseline">} trace
 * @param {number} moment
 */
export function speedupOfLanes({ main, baseline }, moment) {
  if (Math.min(main.tokensAt(moment), baseline.tokensAt(moment)) < FEW_TOKENS) return null;
  const [ours, plain] = [main.rateAt(moment), baseline.rateAt(moment)];
  if (!ours || !plain) return null;
  return {
    speedup: ours / plain,
    rates: ` (${rateText(ours)} against ${rateText(plain)} tokens a second)`,
  };
}

// Say whether a run is faster, slower or about equal. If there are several runs, `speedup` is their
// median.
/**
 * @param {number} speedup
 * @param {number[] | null} [speedups] the speedups of all runs
 */
export function verdictOf(speedup, speedups = null) {
  if (speedups)
    return isSplit(speedup, speedups)
      ? comparison(speedup, [speedup])
      : comparison(speedup, speedups);
  const shown = Number(speedup.toFixed(1)); // rounded as on the page, so that equal numbers get equal words
  return comparison(speedup, [shown - NOISE, shown + NOISE]);
}

/**
 * @param {number} speedup
 * @param {number[]} range values that the speedup may have by chance
 */
function comparison(speedup, range) {
  const isEqual = Math.min(...range) <= 1 + ROUNDING && Math.max(...range) >= 1 - ROUNDING;
  return isEqual ? EQUAL : speedup > 1 ? FASTER : "slower";
}

// Describe the median of several runs, and say so if the runs disagree.
/**
 * @param {number} speedup
 * @param {number[]} speedups
 */
function ofSeveral(speedup, speedups) {
  const word = verdictOf(speedup, speedups);
  return isSplit(speedup, speedups) ? `${word}, but not in every run` : word;
}

/**
 * @param {number} speedup
 * @param {number[]} speedups
 */
function isSplit(speedup, speedups) {
  const isNear = Math.abs(speedup - 1) <= NOISE + ROUNDING;
  return !isNear && comparison(speedup, speedups) === EQUAL;
}

// Name the run that is shown. For an even number of runs it is the lower of the two runs in the
// middle.
/** @param {number} count */
function middleName(count) {
  if (count === 2) return "The lower of two runs";
  return `The ${count % 2 ? "median" : "lower median"} of ${count} runs`;
}

// Say how reliable a speedup is: from how many runs it comes, and under which conditions they were
// measured.
/**
 * @param {number[] | null} speedups
 * @param {Parameters<typeof measuredWords>[0]} [measured]
 */
export function spreadWords(speedups, measured = {}, disturbed = 0) {
  const words = [
    disturbed
      ? `${counted(disturbed, "run")} above ${disturbed === 1 ? "its" : "their"} tokens per forward, which is impossible, ${disturbed === 1 ? "was" : "were"} disturbed and run again`
      : "",
    measuredWords(measured),
  ]
    .filter(Boolean)
    .join(" · ");
  const how = words && ` ${words[0].toUpperCase()}${words.slice(1)}.`;
  if (!speedups) return `One run of each lane: another one may well differ by a tenth.${how}`;
  const [low, high] = [Math.min(...speedups), Math.max(...speedups)];
  return `${middleName(speedups.length)}, which went from ${low.toFixed(2)} to ${high.toFixed(2)}×.${how}`;
}

// Return the speedup of the serving engine, and the rate of each of its servers that has finished.
// The page collects these values over several runs.
/** @param {Trace} trace */
export function serverNumbers({ summary, lanes }) {
  const ended = lanes.filter((lane) => lane.isEngine && lane.hasEnded);
  const rates = Object.fromEntries(ended.map((lane) => [lane.name, lane.rateAt(Infinity)]));
  return { speedup: ended.length === 2 ? (summary?.server_speedup ?? null) : null, rates };
}

// Write the serving engine's own speedup: the server with drafts compared with the server without.
// Return "" unless both answered.
/**
 * @param {Trace} trace
 * @param {number[] | null} speedups the servers' speedups in several runs
 */
export function serverSpeedupWords({ summary, lanes, isLive }, speedups) {
  const servers = lanes.filter((lane) => lane.isEngine);
  const { server_speedup: one, server_speedup_tokens: tokens } = summary ?? {};
  if (one == null || !tokens) return "";
  const isWhole = servers.every((lane) => lane.hasEnded);
  if (!isWhole && tokens < FEW_TOKENS)
    return isLive ? "" : "The servers wrote too little to compare.";
  const speedup = speedups ? middleOf(speedups) : one;
  const word = speedupWord(speedup, null, speedups, "the plain server’s speed");
  const scope = servers.every((lane) => lane.tokens.length === tokens)
    ? ""
    : `, answers of ${servers.map((lane) => lane.tokens.length).join(" and ")} tokens`;
  const spread = speedups
    ? ` (${Math.min(...speedups).toFixed(2)} to ${Math.max(...speedups).toFixed(2)}× in ${speedups.length} runs)`
    : "";
  const isSame =
    new Set(servers.map(({ engine }) => `${engine?.engine} ${engine?.version} ${engine?.model}`))
      .size === 1;
  const caveat = isSame
    ? ""
    : " They name different engines, versions or models: this is not what drafts alone bring.";
  return `With drafts ${isSame ? servers[0].engine?.engine : "the server"} has ${speedupText(speedup, speedups)} ${word}${scope}${spread}${isLive ? " so far" : ""}.${caveat}`;
}
