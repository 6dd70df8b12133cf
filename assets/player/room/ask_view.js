// The question to a class of students, over the whole screen. It hides p, q and the draw until the
// teacher shows the result. Then it shows the students' votes next to these numbers.

import { element, setText } from "../shared/dom.js";
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

/** @type {Record<string, string>} */
const TITLES = {
  accepted: "Accepted",
  rejected: "Rejected",
  verdict: "Will the target keep this guess?",
  prediction: "What the class answered",
};
/** @type {Record<string, string>} */
const KEYS = { a: "accept", r: "reject" };
const GO_ON = ["PageDown", "ArrowRight", "Escape"];

export class AskView {
  /**
   * @param {Refs} refs
   * @param {{ vote: (choice: string) => void, hint: () => void, reveal: () => void, next: () => void, invite: () => void, close: () => void, leave: () => void }} on
   */
  constructor(refs, on) {
    this.refs = refs;
    this.on = on;
    this.isWanted = false;
    this.shown = "";
    const {
      roomAsk,
      roomText,
      roomVotes,
      roomHint,
      roomReveal,
      roomAskNext,
      roomAskInvite,
      roomAskClose,
      roomAskLeave,
    } = refs;
    roomVotes.addEventListener("click", (/** @type {any} */ { target }) =>
      this.chose(target.closest("button")?.dataset.choice),
    );
    // The document listens, so that the keys work whichever element has the focus.
    document.addEventListener("keydown", (event) => this.pressed(event), true);
    // Keep the dialog open, because closing it would reveal the hidden parts of the page.
    roomAsk.addEventListener("cancel", (/** @type {Event} */ event) => event.preventDefault());
    roomAsk.addEventListener("close", () => this.isWanted && roomAsk.showModal());
    roomText.addEventListener("scroll", () => this.fade());
    roomHint.addEventListener("click", on.hint);
    roomReveal.addEventListener("click", on.reveal);
    roomAskNext.addEventListener("click", on.next);
    roomAskInvite.addEventListener("click", on.invite);
    roomAskClose.addEventListener("click", on.close);
    roomAskLeave.addEventListener("click", on.leave);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (!this.isWanted || event.ctrlKey || event.metaKey || event.altKey) return;
    if (this.isDone && GO_ON.includes(event.key)) return (event.preventDefault(), this.on.close());
    const choice = KEYS[event.key.toLowerCase()];
    if (choice) this.chose(choice);
  }

  /** @param {string | undefined} choice */
  chose(choice) {
    if (choice && !this.refs.roomVotes.hidden) this.on.vote(choice);
  }

  // Show a question, or none if `poll` is null. `mine` is the option that this student voted for;
  // it is null for a teacher.
  /**
   * @param {RoomPoll | null} poll
   * @param {{ isTeacher: boolean, mine: string | null, votes: number, here: number, problem: string }} seen
   */
  show(poll, { isTeacher, mine, votes, here, problem }) {
    const { refs } = this;
    this.isWanted = poll !== null;
    if (!poll) return ((this.shown = ""), refs.roomAsk.close());
    const { revealed: isOver, hint } = poll;
    this.isDone = isTeacher && isOver;
    const shown = `${poll.number} ${isOver} ${hint !== null}`;
    const isNew = this.shown !== shown;
    this.shown = shown;
    if (isNew) this.draw(poll, isTeacher);
    if (isOver) this.drawResult(poll);
    setText(refs.roomHinted, hint && !isOver ? hintSentence(hint) : "");
    refs.roomHint.hidden = !isTeacher || isOver || hint !== null;
    const hidden = hiddenWords(poll);
    for (const button of refs.roomVotes.querySelectorAll("button"))
      button.setAttribute("aria-pressed", String(button.dataset.choice === mine));
    const voted = mine ? mineWords(poll, mine) : isOver ? "" : hidden;
    refs.roomSaid.classList.toggle("room-count", isTeacher);
    setText(
      refs.roomSaid,
      problem || (!isTeacher ? voted : isOver ? "" : `${votedWords(votes, here)}. ${hidden}`),
    );
    if (!refs.roomAsk.open) refs.roomAsk.showModal();
    // scroll to the end of a long text, where the drafted token is
    if (isNew) refs.roomText.scrollTop = refs.roomText.scrollHeight;
    this.fade();
    // Set the focus, but not on an answer, because the focus would highlight that answer.
    if (isNew)
      (isTeacher
        ? refs.roomAsk.querySelector("button:not([hidden], [hidden] *)")
        : refs.roomAskTitle
      ).focus({ preventScroll: true });
  }

  // Store how far the text is scrolled in a CSS variable. With it, the style sheet fades out the
  // upper edge of the text.
  fade() {
    const { roomText } = this.refs;
    roomText.style.setProperty("--above", `${roomText.scrollTop}px`);
  }

  /**
   * @param {RoomPoll} poll
   * @param {boolean} isTeacher
   */
  draw(poll, isTeacher) {
    const { refs } = this;
    const isVerdict = poll.kind === "verdict";
    const { revealed: isOver } = poll;
    const end = isOver && isVerdict ? (poll.facts?.accepted ? "accepted" : "rejected") : "";
    setText(refs.roomAskTitle, TITLES[end || poll.kind]);
    refs.roomAskTitle.className = end;
    setText(refs.roomAskPlace, isVerdict ? poll.place : "");
    const guess = poll.guess.trim()
      ? poll.guess
      : JSON.stringify(poll.guess).slice(1, -1).replaceAll(" ", "·");
    refs.roomText.replaceChildren(poll.words, ...(isVerdict ? [element("mark", end, guess)] : []));
    refs.roomText.classList.toggle("is-question", !isVerdict);
    refs.roomVotes.hidden = isTeacher || isOver || !isVerdict;
    refs.roomReveal.hidden = !isTeacher || isOver;
    refs.roomAskNext.hidden = !isTeacher || !isOver || !isVerdict;
    refs.roomAskClose.hidden = !isTeacher;
    setText(refs.roomAskClose, isOver ? "Go on" : "Cancel");
    refs.roomAskInvite.hidden = !isTeacher || isOver;
    refs.roomAskLeaving.hidden = isTeacher;
    refs.roomResult.hidden = !isOver;
  }

  // Draw the bar chart of the votes. Votes may still arrive.
  /** @param {RoomPoll} poll */
  drawResult(poll) {
    const { refs } = this;
    const isVerdict = poll.kind === "verdict";
    setText(refs.roomSentence, isVerdict ? verdictSentence(poll) : "");
    const bars = isVerdict
      ? verdictBars(poll)
      : choices(poll).map(({ text, count, share }) => ({
          name: text,
          share: share ?? 0,
          words: share === null ? "0" : `${count} · ${percent(share)}`,
          mark: null,
        }));
    // The options of a prediction are whole sentences, so they are written above their bars.
    refs.roomBars.classList.toggle("is-worded", !isVerdict);
    refs.roomBars.replaceChildren(...bars.map(bar));
  }
}

// Return one bar of the chart: its name, its share of the track, its label, and optionally a mark
// on the track.
/** @param {{ name: string, share: number, words: string, mark: { at: number, words: string } | null }} of */
function bar({ name, share, words, mark }) {
  const row = element("li");
  const track = element("span", "room-track");
  const fill = element("i");
  fill.style.width = `${100 * share}%`;
  track.append(fill);
  if (mark) {
    const tick = element("b", mark.at > 0.5 ? "room-mark is-late" : "room-mark");
    tick.style.left = `${100 * mark.at}%`;
    tick.append(element("span", "", mark.words));
    track.append(tick);
  }
  row.append(element("span", "room-name", name), track, element("span", "number", words));
  return row;
}
