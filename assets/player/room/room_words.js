// The texts about a class of students: its link, the number of people, and the result of a vote
// next to the probability by the rule. This module creates no elements.

import { compared, counted, decimals, drawn, inChances } from "../shared/number_words.js";
import { RULE } from "../shared/verdict_row.js";

const ROOM = "class"; // the parameter in the address of a class's link
const OF_THIS_MACHINE = /^(localhost|127(\.\d+){3}|\[::1\]|0\.0\.0\.0)$/;

/** @param {string} search */
export function roomIn(search) {
  return new URLSearchParams(search).get(ROOM);
}

// Return the address without the id of the class, which the tab stores separately.
/** @param {string} address */
export function withoutRoom(address) {
  const url = new URL(address);
  url.searchParams.delete(ROOM);
  return url.href;
}

// Return the address of the app, with which the link of a class begins.
/** @param {string} address */
export function homeOf(address) {
  const url = new URL(address);
  return `${url.origin}${url.pathname}`;
}

// Return whether the link works only on this computer.
/** @param {string} link */
export function isOfThisMachine(link) {
  return OF_THIS_MACHINE.test(new URL(link).hostname);
}

/** @param {number} here */
export function hereWords(here) {
  return here ? `${here} here` : "nobody here yet";
}

/**
 * @param {number} votes
 * @param {number} here
 */
export function votedWords(votes, here) {
  return `${votes} of ${Math.max(votes, here)} ${votes === 1 && here <= 1 ? "has" : "have"} answered`;
}

// Return how many students chose each option, and their share of all votes. The share is null if
// nobody voted.
/** @param {RoomPoll} poll */
export function choices({ options, counts = {} }) {
  const all = options.reduce((sum, { name }) => sum + (counts[name] ?? 0), 0);
  return options.map(({ name, text }) => {
    const count = counts[name] ?? 0;
    return { name, text, count, share: all ? count / all : null };
  });
}

// Return the two bars that show the result of a question about a verdict. Both have a scale from 0
// to 1. One is the share of students who voted for "accept". The other is the acceptance
// probability, with the draw as a mark. At temperature 0 nothing is drawn, so the second bar is
// empty or full and has no mark.
/** @param {RoomPoll} poll */
export function verdictBars(poll) {
  const { accept, u, greedy } = /** @type {VerdictFacts} */ (poll.facts);
  const share = choices(poll)[0].share;
  const [rule, draw] =
    accept !== null && u !== null && !greedy
      ? drawn(accept, u)
      : [accept === null ? "—" : decimals(accept), ""];
  return [
    {
      name: "votes for accept",
      share: share ?? 0,
      words: share === null ? "nobody voted" : decimals(share),
      mark: null,
    },
    {
      name: greedy ? "the rule" : RULE,
      share: accept ?? 0,
      words: rule,
      mark: draw ? { at: Number(u), words: `u ${draw}` } : null,
    },
  ];
}

// Return the sentence that reveals the result of a verdict.
/** @param {RoomPoll} poll */
export function verdictSentence(poll) {
  const { p, q, accept, u, accepted, greedy, residual, chosen } = /** @type {VerdictFacts} */ (
    poll.facts
  );
  const [{ count, share }, { count: against }] = choices(poll);
  const voted = count + against;
  const room =
    share === null
      ? "Nobody voted"
      : `${count} of ${counted(voted, "vote")} (${percent(share)}) ${count === 1 ? "was" : "were"} for accepting it`;
  const end = accepted ? "it is accepted" : "it is rejected";
  if (greedy)
    return `${room}. At temperature 0 nothing is drawn: the guess is kept only if it is the target’s most probable token, so ${end}.`;
  if (accept === null || u === null) return `${room}; ${end}.`;
  const [rule, draw] = drawn(accept, u);
  const left = [
    residual ? ", where p is what the rejected guesses before it left" : "",
    chosen ? ", with q = 1 because the draft chose this guess and did not draw it" : "",
  ].join("");
  return `${room}. The rule accepts it with probability min(1, p/q) = min(1, ${quotient(p, q, rule)
    .map((each) => (each.includes("in") ? `(${each})` : each))
    .join(
      " / ",
    )}) = ${rule}${left}: the draw u = ${draw} is ${accepted ? "below that" : "not below that"}, so ${end}.`;
}

// Write p and q of a drafted token before its verdict, for students who want to compute the
// probability. The draw stays hidden.
/** @param {VerdictHint} hint */
export function hintSentence({ p, q, greedy, residual, chosen }) {
  const ratio = p !== null && q ? decimals(Math.min(1, p / q)) : "";
  const [target, draft] = quotient(p, q, ratio);
  if (greedy)
    return `Without temperature 0, the target would give this guess p = ${target} and the draft q = ${draft}. At temperature 0 only the target’s most probable token counts, and nothing is drawn.`;
  const left = residual
    ? "Of the p that the rejected guesses before it left, this guess has"
    : "The target gives this guess p =";
  return chosen
    ? `${left} ${target}. The draft chose it and did not draw it, so q counts as 1.`
    : `${left} ${target}, and the draft gave it q = ${draft}.`;
}

/**
 * @param {number | null} p
 * @param {number | null} q
 * @param {string} ratio
 */
function quotient(p, q, ratio) {
  if (p !== null && q) return inChances(p, q, ratio);
  return compared(p, q).map((text) => text.replace("—", "?"));
}

// Say how this student voted.
/**
 * @param {RoomPoll} poll
 * @param {string} mine
 */
export function mineWords({ revealed, facts }, mine) {
  if (!revealed) return `You said ${mine}. You may change it until the result is shown.`;
  const isSo = (mine === "accept") === facts?.accepted;
  return `You said ${mine}. The result ${isSo ? "is the same" : "is different"}.`;
}

// Say which numbers stay hidden until the result is shown.
/** @param {Pick<RoomPoll, "hint" | "greedy">} poll */
export function hiddenWords({ hint, greedy }) {
  if (greedy)
    return `${hint ? "The verdict is" : "p, q and the verdict are"} hidden until the result is shown.`;
  return hint
    ? "The draw u, a random number from 0 to 1, is hidden until the result is shown."
    : "p, q and the draw u are hidden until the result is shown.";
}

// Say whether this student's page follows the teacher's page.
/**
 * @param {any} state
 * @param {boolean} isElsewhere true if the student has left the page that the teacher shows
 * @param {boolean} isAway true if the teacher's page has not contacted the server for a while
 */
export function followWords(state, isElsewhere, isAway) {
  if (!state) return "Coming into the class …";
  if (!state.follows) return "You are in a class, and may look around on your own.";
  if (isElsewhere) return "You left the teacher’s page.";
  if (isAway) return "Your teacher’s page has been silent for a while: yours waits for it.";
  if (state.unseen)
    return "You are in a class. The teacher’s screen shows more than yours can: look there.";
  return "You are in a class: this page follows the teacher’s.";
}

/** @param {number} share */
export function percent(share) {
  return `${Math.round(100 * share)} %`;
}
