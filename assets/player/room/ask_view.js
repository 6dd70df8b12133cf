// The question to a class of students, as a function of the poll and of who sees it. It hides p, q
// and the draw until the teacher shows the result. Then it shows the students' votes next to these
// numbers.

import { html } from "../shared/view.js";
import {
  choices,
  hiddenWords,
  hintSentence,
  mineWords,
  percent,
  verdictBars,
  verdictSentence,
  votedWords,
} from "./room_words.js";

// A question as one person sees it. `mine` is the option that this student voted for; it is null
// for a teacher.
/**
 * @typedef {object} Asked
 * @property {RoomPoll} poll
 * @property {boolean} isTeacher
 * @property {string | null} mine
 * @property {number} votes
 * @property {number} here the number of students in the class
 * @property {string} problem
 */

/**
 * @typedef {object} AskEvents
 * @property {(choice: string) => void} vote
 * @property {() => void} hint
 * @property {() => void} reveal
 * @property {() => void} next
 * @property {() => void} invite
 * @property {() => void} close
 * @property {() => void} leave
 */

export const TITLE = "sv-room-ask"; // id of the title

/** @type {Record<string, string>} */
const TITLES = {
  accepted: "Accepted",
  rejected: "Rejected",
  verdict: "Will the target keep this guess?",
  prediction: "What the class answered",
};

// Return whether the student can vote in this dialog. The options of a prediction are in its lesson.
/** @param {Asked} asked */
export function canVote({ poll, isTeacher }) {
  return !isTeacher && !poll.revealed && poll.kind === "verdict";
}

/**
 * @param {Asked} asked
 * @param {AskEvents} on
 */
export function askView(asked, on) {
  const { poll, isTeacher } = asked;
  const isVerdict = poll.kind === "verdict";
  const end = poll.revealed && isVerdict ? (poll.facts?.accepted ? "accepted" : "rejected") : "";
  return html`
    <div class="room-question">
      <p class="hint">${isVerdict ? poll.place : ""}</p>
      <h2 id=${TITLE} class=${end} tabindex="-1">${TITLES[end || poll.kind]}</h2>
      <p class=${isVerdict ? "room-text" : "room-text is-question"}>
        ${poll.words}${isVerdict && html`<mark class=${end}>${guessText(poll)}</mark>`}
      </p>
      <p class="room-hinted" role="status">
        ${poll.hint && !poll.revealed ? hintSentence(poll.hint) : ""}
      </p>
      ${canVote(asked) && voteButtons(asked, on)} ${poll.revealed && resultView(poll)}
      <p class=${isTeacher ? "room-said room-count" : "room-said"} role="status">
        ${saidWords(asked)}
      </p>
      ${isTeacher ? teacherButtons(poll, on) : leaveButton(on)}
    </div>
  `;
}

// Write a guess so that it can be seen even if it is only spaces or line breaks.
/** @param {RoomPoll} poll */
function guessText({ guess }) {
  return guess.trim() ? guess : JSON.stringify(guess).slice(1, -1).replaceAll(" ", "·");
}

/** @param {Asked} asked */
export function saidWords({ poll, isTeacher, mine, votes, here, problem }) {
  if (problem) return problem;
  if (mine && !isTeacher) return mineWords(poll, mine);
  if (poll.revealed) return "";
  const hidden = hiddenWords(poll);
  return isTeacher ? `${votedWords(votes, here)}. ${hidden}` : hidden;
}

/**
 * @param {Asked} asked
 * @param {AskEvents} on
 */
function voteButtons({ mine }, on) {
  const button = (
    /** @type {string} */ choice,
    /** @type {string} */ className,
    /** @type {string} */ word,
    /** @type {string} */ key,
  ) => html`
    <button type="button" class=${className} aria-keyshortcuts=${key}
      aria-pressed=${String(mine === choice)} onClick=${() => on.vote(choice)}>
      ${word} <kbd>${key}</kbd>
    </button>
  `;
  return html`
    <div class="room-votes" role="group" aria-labelledby=${TITLE}>
      ${button("accept", "accepted", "Accept", "A")} ${button("reject", "rejected", "Reject", "R")}
    </div>
  `;
}

// The votes as a bar chart. Votes may still arrive. The options of a prediction are whole
// sentences, so they are written above their bars.
/** @param {RoomPoll} poll */
function resultView(poll) {
  const isVerdict = poll.kind === "verdict";
  const bars = isVerdict
    ? verdictBars(poll)
    : choices(poll).map(({ text, count, share }) => ({
        name: text,
        share: share ?? 0,
        words: share === null ? "0" : `${count} · ${percent(share)}`,
        mark: null,
      }));
  return html`
    <div class="room-result">
      <ul class=${isVerdict ? "room-bars" : "room-bars is-worded"}>${bars.map(barView)}</ul>
      <p class="room-sentence" role="status">${isVerdict ? verdictSentence(poll) : ""}</p>
    </div>
  `;
}

// One bar of the chart: its name, its share of the track, its label, and optionally a mark on the
// track.
/** @param {{ name: string, share: number, words: string, mark: { at: number, words: string } | null }} of */
function barView({ name, share, words, mark }) {
  return html`
    <li>
      <span class="room-name">${name}</span>
      <span class="room-track"><i style=${{ width: `${100 * share}%` }}></i>${mark && markView(mark)}</span>
      <span class="number">${words}</span>
    </li>
  `;
}

/** @param {{ at: number, words: string }} mark */
function markView({ at, words }) {
  const className = at > 0.5 ? "room-mark is-late" : "room-mark";
  return html`<b class=${className} style=${{ left: `${100 * at}%` }}><span>${words}</span></b>`;
}

/**
 * @param {RoomPoll} poll
 * @param {AskEvents} on
 */
function teacherButtons({ kind, revealed, hint }, on) {
  const button = (
    /** @type {string} */ className,
    /** @type {string} */ word,
    /** @type {() => void} */ act,
    title = "",
  ) =>
    html`<button type="button" class=${className} title=${title || null} onClick=${act}>${word}</button>`;
  const about = "The class can then work out min(1, p/q); the draw u stays hidden";
  return html`
    <p class="room-moves">
      ${!revealed && button("primary", "Show the result", on.reveal)}
      ${!revealed && hint === null && button("secondary", "Show p and q", on.hint, about)}
      ${revealed && kind === "verdict" && button("primary", "Ask about the next guess", on.next)}
      ${button("secondary", revealed ? "Go on" : "Cancel", on.close)}
      ${!revealed && button("secondary", "Link and code", on.invite)}
    </p>
  `;
}

/** @param {AskEvents} on */
function leaveButton(on) {
  return html`
    <p class="room-leave">
      <button type="button" class="chip" onClick=${on.leave}>Leave the class</button>
    </p>
  `;
}
