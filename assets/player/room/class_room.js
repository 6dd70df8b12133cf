// A class of students, as one browser takes part in it: the teacher's, or that of a student who
// opened the class's link. This module decides which page students see and when they are asked a
// question. The pages themselves know nothing about classes. This module reads the address of the
// shown page, opens other pages, and asks the question that a page offers (shared/page.js).

import { setText } from "../shared/dom.js";
import { tab } from "../shared/kept.js";
import { askDialog } from "./ask_dialog.js";
import { RoomLine } from "./room_line.js";
import {
  followWords,
  hereWords,
  homeOf,
  isOfThisMachine,
  roomIn,
  votedWords,
  withoutRoom,
} from "./room_words.js";

const SEAT = "class"; // the name under which the tab stores its role in a class
const GLANCE_MILLISECONDS = 300; // interval at which the address of the shown page is compared
/** @type {Record<string, number>} keys of a presenter's remote control */
const REMOTE = { PageUp: -1, PageDown: 1 };
const STILL = "This page has no steps";
const [FIRST, LAST] = ["This is the first step", "This is the last step"];
const PAST = ", also past a question: the class answers it";
const BACK = "Back (←, or Page Up of a remote control)";
const NEXT = "Next (→, or Page Down of a remote control)";
const LEADS = "This tab leads a class. For another one, end it, or open the link in a new tab.";
const UNREACHED = "The server cannot be reached: try again.";
const WAITING = "Your vote is sent as soon as the connection is back.";
const LOST = "The connection to the class is lost; it is tried again and again.";

export class ClassRoom {
  /**
   * @param {import("../app.js").App} app
   * @param {GradioLink} gradio
   */
  constructor(app, gradio) {
    this.app = app;
    this.refs = app.refs;
    /** @type {any} the last state of the class that the server sent */
    this.state = null;
    this.here = this.votes = 0;
    this.isLost = this.isAway = false;
    this.problem = "";
    /** @type {{ number: number, choice: string } | null} a vote that did not reach the server */
    this.unsent = null;
    this.left = ""; // id of the class that the user left last
    /** @type {{ room: string, secret?: string, link?: string, qr?: string, isLarge?: boolean, isHinted?: boolean, page?: string } | null} `isHinted` is true if a question shows p and q; `page` is the address that the teacher showed last */
    this.seat = null;
    /** @type {Record<string, string>} position of a lesson's question -> the answer chosen in this tab */
    this.chosen = {};
    this.offered = ""; // the lesson's question that the teacher has asked, as JSON
    this.landed = ""; // the address to which the teacher led this student, as long as the student has not moved away
    this.hasActed = this.isElsewhere = false;
    /** @type {string | undefined} the address that the teacher showed last */
    this.shown = undefined;
    this.isShownInPart = false; // true if the address does not contain everything that the teacher sees
    this.line = new RoomLine(gradio, {
      news: (reply) => this.heard(reply),
      seated: (seat) => this.keep({ ...seat }),
      lost: (isLost) => ((this.isLost = isLost), this.draw()),
      ended: (why) => this.ended(why),
    });
    this.ask = askDialog(app.root, {
      vote: (choice) => this.vote(choice),
      hint: () => this.lead("hint"),
      reveal: () => this.lead("reveal"),
      next: () => this.freeze(),
      invite: () => this.showInvitation(),
      close: () =>
        this.state?.poll?.kind === "prediction"
          ? this.lead("reveal", { on: false })
          : this.lead("drop"),
      leave: () => this.leave(),
    });
    this.wire();
    this.enter();
  }

  wire() {
    const { refs } = this;
    const on = (/** @type {string} */ ref, /** @type {() => void} */ action) =>
      refs[ref].addEventListener("click", action);
    on("openRoom", () => this.showInvitation());
    on("roomBegin", () => this.open());
    on("roomNot", () => refs.roomOpen.close());
    on("roomStart", () => refs.roomOpen.close());
    on("roomInvite", () => this.showInvitation());
    on("roomBack", () => this.move(-1));
    on("roomNext", () => this.move(1));
    on("roomFreeze", () => this.freeze());
    on("roomShowGuesses", () => this.lead("reveal"));
    on("roomFollow", () => this.lead("follow", { on: !this.state?.follows }));
    on(
      "roomHints",
      () => (this.keep({ ...this.seat, isHinted: !this.seat?.isHinted }), this.draw()),
    );
    on("roomReturn", () => (this.seat ? this.follow() : this.sit({ room: this.left })));
    on("roomEnd", () => this.askToEnd());
    on("roomGoOn", () => refs.roomEnding.close());
    on("roomEndNow", () => this.end());
    on("roomLeave", () => this.leave());
    document.addEventListener("keydown", (event) => this.pressed(event));
    for (const act of ["pointerdown", "keydown"])
      document.addEventListener(act, () => this.acted(), { capture: true });
    window.addEventListener("popstate", () => (this.hasActed = true));
    new ResizeObserver(([{ target }]) =>
      this.app.root.style.setProperty("--bar", `${target.clientHeight}px`),
    ).observe(refs.roomBar.parentElement);
    document.addEventListener("visibilitychange", () => document.hidden || this.line.look());
    this.app.root.addEventListener("answered", (/** @type {any} */ { detail }) =>
      this.answered(detail),
    );
  }

  // Join a class by its link, or join it again after a reload.
  enter() {
    const room = roomIn(window.location.search);
    const kept = tab.recall(SEAT, (seat) => typeof seat?.room === "string");
    if (room !== null)
      window.history.replaceState(window.history.state, "", withoutRoom(window.location.href));
    const isAnother = room !== null && kept?.room !== room;
    if (isAnother && kept?.secret) this.stay(kept);
    if (isAnother && !kept?.secret) this.sit({ room });
    else if (kept) this.sit(kept);
  }

  // The teacher has opened the link of another class in the tab that leads this class. Stay in this
  // class, and say why.
  /** @param {{ page?: string }} kept */
  stay({ page }) {
    this.problem = LEADS;
    if (page !== undefined) this.app.follow(page);
  }

  get isTeacher() {
    return Boolean(this.seat?.secret);
  }

  /** @param {any} seat */
  keep(seat) {
    this.seat = seat;
    tab.keep(SEAT, seat);
  }

  /** @param {any} seat */
  sit(seat) {
    this.keep(seat);
    const { room, secret, member } = seat;
    this.timer = window.setInterval(
      () => (secret ? this.glance() : this.wander()),
      GLANCE_MILLISECONDS,
    );
    this.draw();
    this.line.sit(secret ? { room, secret } : { room, member });
  }

  rise() {
    const { seat, refs } = this;
    // restore the text size that was set before the class
    if (seat?.secret && !seat.isLarge && this.app.theme.isLarge) refs.large.click();
    window.clearInterval(this.timer);
    this.line.rise();
    this.seat = this.state = null;
    this.shown = undefined;
    this.offered = "";
    this.here = this.votes = 0;
    this.isLost = this.isElsewhere = this.isAway = false;
    this.problem = "";
    this.unsent = null;
    tab.forget(SEAT);
    refs.roomOpen.close();
    refs.roomEnding.close();
  }

  showInvitation() {
    const { refs, seat } = this;
    const { link = "", qr = "" } = seat ?? {};
    if (seat && !this.isTeacher) return;
    refs.roomOffer.hidden = Boolean(seat);
    refs.roomInvitation.hidden = !seat;
    refs.roomOpenError.hidden = true;
    if (seat) {
      setText(refs.roomLink, link);
      refs.roomCode.src = qr;
      refs.roomLocal.hidden = !isOfThisMachine(link);
    }
    setText(refs.roomOpenTitle, seat ? "Come in by this link" : "Teach with this page");
    if (!refs.roomOpen.open) refs.roomOpen.showModal();
  }

  async open() {
    const { refs } = this;
    const reply = await this.line.ask("open_room", { home: homeOf(document.baseURI) });
    refs.roomOpenError.hidden = Boolean(reply && !reply.error);
    setText(refs.roomOpenError, reply?.error ?? "The server cannot be reached.");
    if (!reply || reply.error) return;
    const { room, secret, link, qr } = reply;
    const { theme } = this.app;
    this.sit({ room, secret, link, qr, isLarge: theme.isLarge });
    if (!theme.isLarge) refs.large.click();
    this.showInvitation();
    refs.roomStart.focus();
    this.glance();
  }

  // Send the class the current address of the teacher's page. It may have changed by any action of
  // the teacher, so it is compared regularly.
  glance() {
    const { address, unseen } = this.app.shown;
    const search = address.linkLimit ? (this.shown ?? "") : this.search;
    if (search !== this.shown || Boolean(unseen) !== this.isShownInPart)
      this.show(search, Boolean(unseen));
    if (!this.isOvertaken) this.offer();
    this.drawTeacher();
  }

  // The query part of the shown page's address.
  get search() {
    return new URL(this.app.shown.address.link).search;
  }

  /** @param {string} search */
  async show(search, unseen = false) {
    this.shown = search;
    this.keep({ ...this.seat, page: search });
    this.isShownInPart = unseen;
    if (this.state) this.state.page = search;
    const reply = await this.line.say("lead_room", { do: "show", page: search, unseen });
    if (!reply || reply.error) this.shown = undefined; // undefined, so that the next `glance` sends the address again
  }

  // Return whether another tab of the same teacher leads the class now.
  get isOvertaken() {
    return this.state !== null && this.shown !== undefined && this.state.page !== this.shown;
  }

  // Ask the class the question of a lesson as soon as the teacher's page shows it. If numbers of
  // the question arrive later, ask it again with them. End the question when the teacher moves on.
  offer() {
    const { question } = this.app.shown;
    const poll = this.state?.poll;
    if (poll?.kind === "verdict" || !this.state) return;
    const isGuess = question?.kind === "prediction";
    const offered = isGuess ? JSON.stringify(asking(question)) : "";
    if (isGuess && this.offered !== offered) this.lead("ask", asking(question));
    else if (!isGuess && poll) this.lead("drop");
    this.offered = offered;
  }

  // Ask the class about the next verdict of the run, which no page has shown yet.
  freeze() {
    this.land();
    const { question } = this.app.shown;
    if (question?.kind !== "verdict")
      return ((this.problem = "This run has no further verdict to ask about."), this.draw());
    question.still?.();
    this.lead("ask", {
      ...asking(question),
      facts: question.facts,
      hinted: Boolean(this.seat?.isHinted),
    });
  }

  // If the result of the current question was shown, move the page past this question. This also
  // works after a reload, and if another tab of the teacher showed the result.
  land() {
    const { question } = this.app.shown;
    const poll = this.state?.poll;
    if (poll?.revealed && question && isSame(question, poll)) question.land?.();
  }

  /**
   * @param {string} what
   * @param {object} [values]
   */
  async lead(what, values = {}) {
    const reply = await this.line.say("lead_room", { do: what, ...values });
    this.problem = reply ? (reply.error ?? "") : UNREACHED;
    if (!reply) this.offered = ""; // empty, so that the question is asked again
    this.draw();
  }

  // Ask the teacher to confirm the end of the class, because it ends for everyone and cannot be
  // opened again.
  askToEnd() {
    const { refs, here } = this;
    const who = here
      ? `The class ends for everybody: ${hereWords(here)}.`
      : "Nobody follows it now.";
    setText(
      refs.roomEndingWords,
      `${who} Its link then no longer works, and the collected answers are lost.`,
    );
    refs.roomEnding.showModal();
  }

  async end() {
    await this.line.ask("lead_room", { do: "end" });
    this.rise();
    this.draw();
  }

  /** @param {number} by */
  move(by) {
    const { lead, position } = this.actions;
    (lead ?? position)?.(by);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (!this.isTeacher || !REMOTE[event.key] || document.querySelector("dialog[open]")) return;
    event.preventDefault();
    this.move(REMOTE[event.key]);
  }

  // The key actions of the shown page.
  get actions() {
    return /** @type {Actions} */ (this.app.shown.actions);
  }

  /** @param {string} choice */
  async vote(choice) {
    const { poll } = this.state ?? {};
    if (!poll) return;
    const before = this.state.mine;
    this.unsent = null;
    this.state.mine = choice; // show the vote before the server has confirmed it
    this.problem = "";
    this.draw();
    const reply = await this.line.vote({ number: poll.number, choice });
    if (reply === undefined || (reply && !reply.error)) return;
    if (this.state?.poll?.number !== poll.number || this.state.mine !== choice) return;
    if (!reply) this.unsent = { number: poll.number, choice };
    else this.state.mine = before;
    const late =
      before && poll.kind === "verdict"
        ? `Your change came too late: you said ${before}.`
        : `${reply?.error}.`;
    this.problem = reply ? late : WAITING;
    this.draw();
  }

  // Send a vote again that was lost with the connection.
  sendAgain() {
    const { unsent } = this;
    this.unsent = null;
    if (this.problem === UNREACHED || this.problem === WAITING) this.problem = "";
    if (unsent && this.state?.poll?.number === unsent.number) this.vote(unsent.choice);
  }

  // Send an answer that the student chose in a lesson. It counts once the teacher asks the same
  // question.
  /** @param {{ place: string, option: string }} answer */
  answered({ place, option }) {
    this.chosen[place] = option;
    this.sendGuess();
  }

  // Record that the user has clicked or pressed a key. Before the first of these, a change of the
  // address cannot mean that the student left the teacher's page.
  acted() {
    if (this.problem === LEADS) this.problem = "";
    if (!this.hasActed && this.seat && !this.isTeacher) this.landed = this.search;
    this.hasActed = true;
  }

  // Check whether the student still sees the page that the teacher chose.
  wander() {
    const { search, state } = this;
    if (!this.hasActed) this.landed = search;
    const isElsewhere = Boolean(state?.page) && search !== this.landed && search !== state.page;
    if (isElsewhere === this.isElsewhere) return;
    this.isElsewhere = isElsewhere;
    this.draw();
  }

  follow() {
    this.app.follow(this.state.page);
    this.hasActed = false;
    this.wander();
  }

  sendGuess() {
    const { poll, mine } = this.state ?? {};
    const choice = poll && this.chosen[poll.place];
    if (this.isTeacher || poll?.kind !== "prediction" || !choice || choice === mine) return;
    if (poll.options.some((/** @type {Choice} */ { name }) => name === choice)) this.vote(choice);
  }

  // Leave the class. The button "Come back" undoes it.
  leave() {
    const { seat } = this;
    if (seat) this.line.ask("leave_room", {});
    this.rise();
    this.draw();
    if (!seat) return;
    this.left = seat.room;
    this.say("You left the class.");
    this.refs.roomReturn.hidden = false;
    setText(this.refs.roomReturn, "Come back");
  }

  /** @param {Reply} reply */
  heard(reply) {
    this.here = reply.here ?? this.here;
    this.votes = reply.votes ?? this.votes;
    this.isAway = Boolean(reply.away);
    if (reply.state) this.take(reply.state);
    this.sendAgain();
    this.draw();
  }

  /** @param {any} state */
  take(state) {
    const before = this.state;
    const { unsaid } = this.line;
    this.state =
      unsaid && unsaid.number === state.poll?.number ? { ...state, mine: unsaid.choice } : state;
    if (
      before?.poll?.number !== state.poll?.number ||
      before?.poll?.revealed !== state.poll?.revealed
    )
      this.problem = "";
    if (this.isTeacher) return this.land();
    const isElsewhere = state.page !== before?.page || !before.follows;
    if (state.follows && state.page && isElsewhere) this.follow();
    this.sendGuess();
  }

  /** @param {string} why */
  ended(why) {
    const { state, isTeacher } = this;
    this.rise();
    this.draw();
    this.say(
      state === null
        ? why
        : isTeacher
          ? "The class has ended."
          : "The class has ended. The page is yours now.",
    );
  }

  draw() {
    const { refs, state, seat, isTeacher } = this;
    refs.openRoom.hidden = seat !== null;
    refs.roomBar.hidden = seat === null;
    refs.roomLead.hidden = !isTeacher;
    this.app.root.classList.toggle("is-led", isTeacher);
    refs.roomLeave.hidden = isTeacher;
    refs.roomReturn.hidden = isTeacher || !this.isElsewhere;
    setText(refs.roomReturn, "Back to it");
    refs.roomBar.classList.toggle("is-lost", this.isLost);
    setText(refs.roomLeave, "Leave");
    const poll = state?.poll ?? null;
    const isAsked = poll !== null && (poll.kind === "verdict" || (isTeacher && poll.revealed));
    const mine = state?.mine ?? null;
    const { votes, here } = this;
    const problem = this.isLost ? LOST : this.problem;
    this.ask(isAsked ? { poll, isTeacher, mine, votes, here, problem } : null);
    if (isTeacher) this.drawTeacher();
    else if (seat)
      setText(
        refs.roomWord,
        this.isLost ? LOST : followWords(state, this.isElsewhere, this.isAway),
      );
  }

  drawTeacher() {
    const { refs, state, app } = this;
    if (!this.isTeacher) return;
    const { shown } = app;
    const isGuess = state?.poll?.kind === "prediction" && !state.poll.revealed;
    const follows = state?.follows ?? true;
    const remarks = this.isOvertaken
      ? ["another tab of yours leads: a step here takes over"]
      : [shown.unseen && `the class does not see ${shown.unseen}`, shown.unasked];
    const parts = [
      `Class: ${hereWords(this.here)}${follows ? "" : ", free to look around"}`,
      isGuess && votedWords(this.votes, this.here),
      ...remarks,
    ];
    setText(refs.roomWord, this.isLost ? LOST : this.problem || parts.filter(Boolean).join(" · "));
    setText(refs.roomCount, hereWords(this.here));
    this.drawMoves();
    for (const button of [refs.roomFreeze, refs.roomHints])
      button.hidden = shown.question?.kind !== "verdict";
    refs.roomHints.setAttribute("aria-pressed", String(Boolean(this.seat?.isHinted)));
    refs.roomShowGuesses.hidden = !isGuess || !this.votes;
    refs.roomFollow.classList.toggle("is-on", follows);
    setText(refs.roomFollow, follows ? "They follow" : "They are free");
  }

  drawMoves() {
    const { refs } = this;
    const { lead, position } = this.actions;
    const isStill = !(lead ?? position);
    const isFirst = !isStill && !this.app.shown.canMove(-1);
    const isLast = !isStill && !lead && !this.app.shown.canMove(1);
    refs.roomBack.disabled = isStill || isFirst;
    refs.roomNext.disabled = isStill || isLast;
    refs.roomBack.title = isStill ? STILL : isFirst ? FIRST : BACK;
    refs.roomNext.title = isStill ? STILL : isLast ? LAST : `${NEXT}${lead ? PAST : ""}`;
  }

  // Show a message after the class has ended, until the user dismisses it.
  /** @param {string} words */
  say(words) {
    const { refs } = this;
    refs.roomBar.hidden = refs.roomLeave.hidden = false;
    setText(refs.roomWord, words);
    setText(refs.roomLeave, "OK");
  }
}

// Return the part of a question that students may see before the result.
/** @param {PageQuestion} question */
function asking({ kind, place, words, guess, options }) {
  return { kind, place, words, guess, options };
}

// Return whether a poll asks exactly this question.
/**
 * @param {PageQuestion} question
 * @param {RoomPoll} poll
 */
function isSame({ kind, place, words, guess }, poll) {
  return kind === poll.kind && place === poll.place && words === poll.words && guess === poll.guess;
}
