// The question to a class, over the whole screen: while it is asked p, q and the draw are hidden behind it;
// then what the class chose, beside what was hidden.

import { element, setText } from "../shared/dom.js";
import { choices, hiddenWords, hintSentence, mineWords, percent, verdictBars, verdictSentence, votedWords } from "./room_words.js";

/** @type {Record<string, string>} */
const TITLES = { accepted: "Accepted", rejected: "Rejected", verdict: "Will the target keep this guess?", prediction: "What the class answered" };
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
    const { roomAsk, roomText, roomVotes, roomHint, roomReveal, roomAskNext, roomAskInvite, roomAskClose, roomAskLeave } = refs;
    roomVotes.addEventListener("click", (/** @type {any} */ { target }) => this.chose(target.closest("button")?.dataset.choice));
    document.addEventListener("keydown", (event) => this.pressed(event), true); // wherever the focus is
    roomAsk.addEventListener("cancel", (/** @type {Event} */ event) => event.preventDefault()); // what it hides stays hidden
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
    if (this.isDone && GO_ON.includes(event.key)) return event.preventDefault(), this.on.close();
    const choice = KEYS[event.key.toLowerCase()];
    if (choice) this.chose(choice);
  }

  /** @param {string | undefined} choice */
  chose(choice) {
    if (choice && !this.refs.roomVotes.hidden) this.on.vote(choice);
  }

  // `poll` null: nothing is asked. `mine`: what this member chose; a teacher only asks.
  /**
   * @param {RoomPoll | null} poll
   * @param {{ isTeacher: boolean, mine: string | null, votes: number, here: number, problem: string }} seen
   */
  show(poll, { isTeacher, mine, votes, here, problem }) {
    const { refs } = this;
    this.isWanted = poll !== null;
    if (!poll) return this.shown = "", refs.roomAsk.close();
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
    for (const button of refs.roomVotes.querySelectorAll("button")) button.setAttribute("aria-pressed", String(button.dataset.choice === mine));
    const voted = mine ? mineWords(poll, mine) : isOver ? "" : hidden;
    refs.roomSaid.classList.toggle("room-count", isTeacher);
    setText(refs.roomSaid, problem || (!isTeacher ? voted : isOver ? "" : `${votedWords(votes, here)}. ${hidden}`));
    if (!refs.roomAsk.open) refs.roomAsk.showModal();
    if (isNew) refs.roomText.scrollTop = refs.roomText.scrollHeight; // of a long text, its end with the guess
    this.fade();
    if (isNew) (isTeacher ? refs.roomAsk.querySelector("button:not([hidden], [hidden] *)") : refs.roomAskTitle).focus({ preventScroll: true }); // no answer stands out
  }

  // No further down than the text reaches above its box.
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
    const guess = poll.guess.trim() ? poll.guess : JSON.stringify(poll.guess).slice(1, -1).replaceAll(" ", "·");
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

  // Whose counts may grow.
  /** @param {RoomPoll} poll */
  drawResult(poll) {
    const { refs } = this;
    const isVerdict = poll.kind === "verdict";
    setText(refs.roomSentence, isVerdict ? verdictSentence(poll) : "");
    const bars = isVerdict ? verdictBars(poll) : choices(poll).map(({ text, count, share }) => ({ name: text, share: share ?? 0, words: share === null ? "0" : `${count} · ${percent(share)}`, mark: null }));
    refs.roomBars.classList.toggle("is-worded", !isVerdict); // whole sentences, above their bars
    refs.roomBars.replaceChildren(...bars.map(bar));
  }
}

// A row of the chart: its name, its share of the track, what it comes to, and perhaps a mark on the track.
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
