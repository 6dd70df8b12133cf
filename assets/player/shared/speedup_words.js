// The speedup in words: of one run, whose clock is noisy, or of several with their spread.

import { counted, measuredWords } from "./number_words.js";

export const NOISE = 0.1; // what two runs of one setting often differ by
export const FEW_TOKENS = 8; // of a run that goes on, or was stopped: its clocks say nothing yet
const BASELINE = "the baseline’s speed";
export const EQUAL = "about equal";
export const FASTER = "faster";
const ROUNDING = 1e-9; // 1.1 - 0.1 is a little more than 1

/** @param {number[]} speedups */
export function middleOf(speedups) {
  return [...speedups].sort((a, b) => a - b)[Math.floor((speedups.length - 1) / 2)];
}

// One run does not carry three digits.
/**
 * @param {number | null} speedup
 * @param {number[] | null} [speedups] of all runs
 */
export function speedupText(speedup, speedups = null) {
  if (speedup === null) return "–";
  return `${speedup.toFixed(speedups ? 2 : 1)}×`;
}

/**
 * @param {number | null} speedup
 * @param {string | null} ending
 * @param {number[] | null} [speedups]
 * @param {string} [of] whose speed it is a multiple of
 */
export function speedupWord(speedup, ending, speedups = null, of = BASELINE) {
  if (speedup === null) return ending === "stopped" ? "stopped too early to compare" : "measuring …";
  const verdict = speedups ? ofSeveral(speedup, speedups) : verdictOf(speedup);
  const word = `${of}: ${verdict}`;
  return ending === "stopped" && !speedups ? `${word}, up to where it was stopped` : word;
}

// Over which tokens a speedup was measured, "" over all: those of the whole rounds that both lanes have.
/** @param {Pick<RunSummaryRecord, "baseline" | "speculative" | "speedup_tokens">} summary */
export function speedupScope({ baseline, speculative, speedup_tokens: tokens }) {
  const isOfAll = tokens === baseline.tokens && tokens === speculative.tokens;
  return isOfAll || !tokens ? "" : firstTokens(tokens);
}

/** @param {number} tokens */
export function firstTokens(tokens) {
  return `, over the first ${counted(tokens, "token")}`;
}

// Of one run, or of several whose middle one it is.
/**
 * @param {number} speedup
 * @param {number[] | null} [speedups] of all runs
 */
export function verdictOf(speedup, speedups = null) {
  if (speedups) return isSplit(speedup, speedups) ? comparison(speedup, [speedup]) : comparison(speedup, speedups);
  const shown = Number(speedup.toFixed(1)); // so that equal numbers have equal words
  return comparison(speedup, [shown - NOISE, shown + NOISE]);
}

/**
 * @param {number} speedup
 * @param {number[]} range where it may lie
 */
function comparison(speedup, range) {
  const isEqual = Math.min(...range) <= 1 + ROUNDING && Math.max(...range) >= 1 - ROUNDING;
  return isEqual ? EQUAL : speedup > 1 ? FASTER : "slower";
}

// The middle one of several runs: where they do not agree, that is said.
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

// How much a speedup is to be trusted: of how many runs it is, and how the one that is shown was measured.
/**
 * @param {number[] | null} speedups
 * @param {Parameters<typeof measuredWords>[0]} [measured]
 */
export function spreadWords(speedups, measured = {}) {
  const words = measuredWords(measured);
  const how = words && ` ${words[0].toUpperCase()}${words.slice(1)}.`;
  if (!speedups) return `One run of each lane: another one may well differ by a tenth.${how}`;
  const [low, high] = [Math.min(...speedups), Math.max(...speedups)];
  return `The middle one of ${speedups.length} runs, which went from ${low.toFixed(2)} to ${high.toFixed(2)}×.${how}`;
}

// What the spread over several runs is made of: of each server that came to its end.
/** @param {Trace} trace */
export function serverNumbers({ summary, lanes }) {
  const ended = lanes.filter((lane) => lane.isEngine && lane.hasEnded);
  const rates = Object.fromEntries(ended.map((lane) => [lane.name, lane.rateAt(Infinity)]));
  return { speedup: ended.length === 2 ? summary?.server_speedup ?? null : null, rates };
}

// The engine's own speedup: its server with drafts beside the one without; "" where there are no two answers.
/**
 * @param {Trace} trace
 * @param {number[] | null} speedups of several runs
 */
export function serverSpeedupWords({ summary, lanes, isLive }, speedups) {
  const servers = lanes.filter((lane) => lane.isEngine);
  const { server_speedup: one, server_speedup_tokens: tokens } = summary ?? {};
  if (one == null || !tokens) return "";
  const isWhole = servers.every((lane) => lane.hasEnded);
  if (!isWhole && tokens < FEW_TOKENS) return isLive ? "" : "The servers wrote too little to compare.";
  const speedup = speedups ? middleOf(speedups) : one;
  const word = speedupWord(speedup, null, speedups, "the plain server’s speed");
  const scope = servers.every((lane) => lane.tokens.length === tokens) ? "" : firstTokens(tokens);
  const spread = speedups ? ` (${Math.min(...speedups).toFixed(2)} to ${Math.max(...speedups).toFixed(2)}× in ${speedups.length} runs)` : "";
  const isSame = new Set(servers.map(({ engine }) => `${engine?.engine} ${engine?.version} ${engine?.model}`)).size === 1;
  const caveat = isSame ? "" : " They name different engines, versions or models: this is not what drafts alone bring.";
  return `With drafts ${isSame ? servers[0].engine?.engine : "the server"} has ${speedupText(speedup, speedups)} ${word}${scope}${spread}${isLive ? " so far" : ""}.${caveat}`;
}
