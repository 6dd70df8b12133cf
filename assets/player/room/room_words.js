// What a class is told: links, the count of who is here, and the result of a vote beside the rule's own
// probability. Knows no elements.

import { compared, counted, decimals, drawn, inChances } from "../shared/number_words.js";
import { RULE } from "../shared/verdict_row.js";

const ROOM = "class"; // the parameter of a link to a class
const OF_THIS_MACHINE = /^(localhost|127(\.\d+){3}|\[::1\]|0\.0\.0\.0)$/;

/** @param {string} search */
export function roomIn(search) {
  return new URLSearchParams(search).get(ROOM);
}

// The address without its class, for this tab remembers that.
/** @param {string} address */
export function withoutRoom(address) {
  const url = new URL(address);
  url.searchParams.delete(ROOM);
  return url.href;
}

// What a class's link begins with.
/** @param {string} address */
export function homeOf(address) {
  const url = new URL(address);
  return `${url.origin}${url.pathname}`;
}

// Whether other devices cannot open it.
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

// How many chose each option, and their share of all, null where nobody answered.
/** @param {RoomPoll} poll */
export function choices({ options, counts = {} }) {
  const all = options.reduce((sum, { name }) => sum + (counts[name] ?? 0), 0);
  return options.map(({ name, text }) => {
    const count = counts[name] ?? 0;
    return { name, text, count, share: all ? count / all : null };
  });
}

// The bars of a verdict: the class beside the rule, both as numbers from 0 to 1, the draw as a mark on the rule's. At temperature 0, where
// nothing is drawn, the rule's is empty or full.
/** @param {RoomPoll} poll */
export function verdictBars(poll) {
  const { accept, u, greedy } = /** @type {VerdictFacts} */ (poll.facts);
  const share = choices(poll)[0].share;
  const [rule, draw] = accept !== null && u !== null && !greedy ? drawn(accept, u) : [accept === null ? "—" : decimals(accept), ""];
  return [
    { name: "votes for accept", share: share ?? 0, words: share === null ? "nobody voted" : decimals(share), mark: null },
    { name: greedy ? "the rule" : RULE, share: accept ?? 0, words: rule, mark: draw ? { at: Number(u), words: `u ${draw}` } : null },
  ];
}

// The one sentence of a reveal.
/** @param {RoomPoll} poll */
export function verdictSentence(poll) {
  const { p, q, accept, u, accepted, greedy, residual } = /** @type {VerdictFacts} */ (poll.facts);
  const [{ count, share }, { count: against }] = choices(poll);
  const voted = count + against;
  const room = share === null ? "Nobody voted" : `${count} of ${counted(voted, "vote")} (${percent(share)}) ${count === 1 ? "was" : "were"} for accepting it`;
  const end = accepted ? "it is accepted" : "it is rejected";
  if (greedy) return `${room}. At temperature 0 nothing is drawn: the guess is kept only if it is the target’s most probable token, so ${end}.`;
  if (accept === null || u === null) return `${room}; ${end}.`;
  const [rule, draw] = drawn(accept, u);
  const left = residual ? ", with the p that the rejected guesses before it left over" : "";
  return `${room}. The rule accepts it with probability min(1, p/q) = min(1, ${quotient(p, q, rule).map((each) => (each.includes("in") ? `(${each})` : each)).join(" / ")}) = ${rule}${left}: the draw u = ${draw} is ${accepted ? "below that" : "not below that"}, so ${end}.`;
}

// p and q of a guess that is still to be judged, for those who are to reckon; the draw stays hidden.
/** @param {VerdictHint} hint */
export function hintSentence({ p, q, greedy, residual }) {
  const ratio = p !== null && q ? decimals(Math.min(1, p / q)) : "";
  const [target, draft] = quotient(p, q, ratio);
  if (greedy) return `Before temperature 0 the target gives this guess p = ${target} and the draft q = ${draft}. Then only the target’s most probable token counts: nothing is drawn.`;
  const left = residual ? "Of the p that the rejected guesses before it left over, this guess has" : "The target gives this guess p =";
  return `${left} ${target}, and the draft gave it q = ${draft}.`;
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

// A member's own vote.
/**
 * @param {RoomPoll} poll
 * @param {string} mine
 */
export function mineWords({ revealed, facts }, mine) {
  if (!revealed) return `You said ${mine}. You may change it until the result is shown.`;
  const isSo = (mine === "accept") === facts?.accepted;
  return `You said ${mine}${isSo ? ", and so it came out" : ". It came out otherwise"}.`;
}

// What a question hides until its result.
/** @param {Pick<RoomPoll, "hint" | "greedy">} poll */
export function hiddenWords({ hint, greedy }) {
  if (greedy) return `${hint ? "The verdict is" : "p, q and the verdict are"} hidden until the result is shown.`;
  return hint ? "The draw u, a random number from 0 to 1, is hidden until the result is shown." : "p, q and the draw u are hidden until the result is shown.";
}

// Of a member's own line.
/**
 * @param {any} state
 * @param {boolean} isElsewhere whether the member went away from what the teacher shows
 * @param {boolean} isAway whether the teacher did
 */
export function followWords(state, isElsewhere, isAway) {
  if (!state) return "Coming into the class …";
  if (!state.follows) return "You are in a class, and may look around on your own.";
  if (isElsewhere) return "You left the teacher’s page.";
  if (isAway) return "Your teacher’s page has been silent for a while: yours waits for it.";
  if (state.unseen) return "You are in a class. The teacher’s screen shows more than yours can: look there.";
  return "You are in a class: this page follows the teacher’s.";
}

/** @param {number} share */
export function percent(share) {
  return `${Math.round(100 * share)} %`;
}
