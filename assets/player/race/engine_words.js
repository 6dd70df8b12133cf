// What is said of a serving engine's lane: who it is, what it tells of its drafts, and whether its text is ours.

import { counted } from "../shared/number_words.js";
import { FEW_TOKENS, firstTokens, middleOf, speedupText, speedupWord } from "./speedup_words.js";

const ENDED = "the race was ended before its answer";

/**
 * @param {Trace} trace
 * @param {Lane} lane
 * @param {number[]} [rates] its tokens a second in each of several runs
 */
export function engineWords(trace, lane, rates = []) {
  const { engine } = lane;
  if (!engine) return trace.isLive ? "It is asked once the lanes of this machine have ended." : sentence(ENDED);
  const name = [engine.engine, engine.version].filter(Boolean).join(" ");
  const who = engine.model ? `${name}, model ${engine.model}` : name;
  const isOver = lane.hasEnded || !trace.isLive;
  const said = lane.tokens.length ? [isOver ? draftWords(lane) : "", textWords(trace, lane)] : [];
  if (rates.length > 1) said.push(`${Math.min(...rates).toFixed(1)} to ${Math.max(...rates).toFixed(1)} tok/s in ${rates.length} runs`);
  const facts = [who, ...said].filter(Boolean).join(" · ");
  const remark = engine.remark || (isOver && !lane.hasEnded && !said.length ? ENDED : "");
  return [facts, remark && sentence(remark)].filter(Boolean).join(". ");
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
  if (!isWhole && tokens < FEW_TOKENS) return isLive ? "" : "The servers were stopped too early to compare.";
  const speedup = speedups ? middleOf(speedups) : one;
  const word = speedupWord(speedup, null, speedups, "the plain server’s speed");
  const scope = servers.every((lane) => lane.tokens.length === tokens) ? "" : firstTokens(tokens);
  const spread = speedups ? ` (${Math.min(...speedups).toFixed(2)} to ${Math.max(...speedups).toFixed(2)}× in ${speedups.length} runs)` : "";
  const isSame = new Set(servers.map(({ engine }) => `${engine?.engine} ${engine?.version} ${engine?.model}`)).size === 1;
  const caveat = isSame ? "" : " They name different engines, versions or models: this is not what drafts alone bring.";
  return `With drafts ${isSame ? servers[0].engine?.engine : "the server"} has ${speedupText(speedup, speedups)} ${word}${scope}${spread}${isLive ? " so far" : ""}.${caveat}`;
}

// Tokens that it says were drafted and kept; where each came from is seen in the text, or unknown.
/** @param {Lane} lane */
function draftWords({ engine, tokens }) {
  const isTold = tokens.every(({ origin }) => origin !== "unknown");
  const drafted = engine?.drafted;
  if (drafted === 0) return "nothing drafted";
  const origins = isTold ? "" : ", which of them is unknown";
  return drafted == null ? "its drafts are unknown" : `${engine?.accepted} of ${counted(drafted, "drafted token")} accepted${origins}`;
}

// Above temperature 0 the texts differ by chance.
/**
 * @param {Trace} trace
 * @param {Lane} lane
 */
function textWords(trace, lane) {
  const { baseline, isGreedy } = trace;
  if (!isGreedy || !baseline.tokens.length) return "";
  const at = trace.differenceOf(lane);
  if (at >= 0) return `differs from the baseline’s text from token ${at + 1} on`;
  const isWhole = lane.tokens.length === baseline.tokens.length;
  return isWhole ? "the baseline’s text, token by token" : "the baseline’s text as far as both go";
}

/** @param {string} text */
function sentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}
