// Describes the lane of a serving engine: which engine it is, what the engine reports about its
// drafts, and whether its text equals the baseline's.

import { counted } from "./number_words.js";

const ENDED = "the race was ended before its answer";

/**
 * @param {Trace} trace
 * @param {Lane} lane
 * @param {number[]} [rates] tokens per second of the lane in each of several runs
 */
export function engineWords(trace, lane, rates = []) {
  const { engine } = lane;
  if (!engine)
    return trace.isLive
      ? "It is asked once the lanes of this machine have ended."
      : sentence(ENDED);
  const name = [engine.engine, engine.version].filter(Boolean).join(" ");
  const who = engine.model ? `${name}, model ${engine.model}` : name;
  const isOver = lane.hasEnded || !trace.isLive;
  const said = lane.tokens.length ? [isOver ? draftWords(lane) : "", textWords(trace, lane)] : [];
  if (rates.length > 1)
    said.push(
      `${Math.min(...rates).toFixed(1)} to ${Math.max(...rates).toFixed(1)} tok/s in ${rates.length} runs`,
    );
  const facts = [who, ...said].filter(Boolean).join(" · ");
  const remark = engine.remark || (isOver && !lane.hasEnded && !said.length ? ENDED : "");
  return [facts, remark && sentence(remark)].filter(Boolean).join(". ");
}

// Describe the whole lane in one line, for views that do not show its text.
/**
 * @param {Trace} trace
 * @param {Lane} lane
 */
export function engineLine(trace, lane) {
  const { name, tokens, clock, forwards, hasEnded } = lane;
  const known = forwards.length
    ? counted(forwards.length, "target forward")
    : "target forwards unknown";
  const size = `${counted(tokens.length, "token")} in ${clock.toFixed(2)} s, ${lane.rateAt(Infinity).toFixed(1)} a second${hasEnded ? "" : ", stopped"} · ${known} · `;
  return `Also in the race, the ${name}: ${tokens.length ? size : ""}${engineWords(trace, lane)}`;
}

// Say how many drafted tokens the engine reports, and how many of them were accepted. The text
// itself shows the origin of each token, if it is known.
/** @param {Lane} lane */
function draftWords({ engine, tokens }) {
  const isTold = tokens.every(({ origin }) => origin !== "unknown");
  const drafted = engine?.drafted;
  if (drafted === 0) return "nothing drafted";
  const origins = isTold ? "" : ", which of them is unknown";
  return drafted == null
    ? "its drafts are unknown"
    : `${engine?.accepted} of ${counted(drafted, "drafted token")} accepted${origins}`;
}

// Compare the lane's text with the baseline's. Return "" above temperature 0, where the texts
// differ by chance.
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
