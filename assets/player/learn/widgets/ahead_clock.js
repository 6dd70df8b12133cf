// A widget about a recorded run that drafted while the target verified. It shows both models on one
// clock, round by round.

import { drawing, element, setText } from "../../shared/dom.js";
import { Widget } from "../widget.js";
import { clockNumbers, clockRound } from "./clock_rounds.js";

const WINDOW = 4; // rounds that are visible at the same time
const [WIDTH, TOP, LANE, GAP, LEFT] = [640, 26, 34, 16, 58];
const HEIGHT = TOP + 2 * LANE + GAP + 26;

export class AheadClock extends Widget {
  static id = "ahead-clock";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on);
    /** @type {Record<string, string>} */
    this.scene = {};
    /** @type {Trace | null} */
    this.trace = null;
    /** @type {import("./clock_rounds.js").ClockRound[]} */
    this.rounds = [];
    this.at = 1; // number of visible rounds
    this.key = element("p", "guess-key hint");
    this.key.append(
      ...[
        ["is-verify", "target verifies"],
        ["is-ahead", "draft works ahead"],
        ["is-draft", "draft works, target waits"],
      ].map(([name, words]) => {
        const each = element("span");
        each.append(element("i", `clock-${name}`), words);
        return each;
      }),
    );
    this.picture = element("div", "clock-picture");
    this.words = element("p", "forward-words");
    this.words.setAttribute("role", "status");
    this.next = element("button", "primary", "Next round");
    this.next.type = "button";
    this.next.dataset.next = "";
    this.next.disabled = true; // disabled until the recording has loaded
    this.next.addEventListener("click", () => this.go());
    this.tally = element("p", "clock-tally");
    this.tally.setAttribute("role", "group");
    this.tally.setAttribute("aria-label", "Rounds so far");
    box.classList.add("ahead-clock");
    box.replaceChildren(this.key, this.picture, this.words, this.next, this.tally);
  }

  /** @param {Record<string, string>} scene */
  async set(scene) {
    this.scene = scene;
    const trace = await this.course.recordings.open(scene.trace);
    if (this.scene !== scene) return; // the learner has moved to another step
    this.trace = trace;
    this.rounds = trace.rounds.map(clockRound).filter((each) => each !== null);
    this.at = scene.show === "whole" ? this.rounds.length : 1;
    this.draw();
    this.on.changed();
  }

  reveal() {
    this.scene = { ...this.scene, show: "whole" };
    this.at = this.rounds.length;
    this.draw();
    this.on.changed();
  }

  go() {
    if (this.at >= this.rounds.length) return;
    this.at += 1;
    this.draw();
    this.on.changed();
    if (this.at === this.rounds.length) this.on.reached("walked");
  }

  get values() {
    const none = Object.fromEntries(NUMBERS.map((name) => [name, undefined]));
    const { header } = this.trace ?? {};
    return {
      ...none,
      ...clockNumbers(this.rounds),
      prompt: header?.prompt,
      model: header?.target.name,
      K: this.trace?.main.config?.draft_length,
    };
  }

  draw() {
    const { rounds, at, scene } = this;
    if (!rounds.length) return;
    this.next.hidden = scene.show !== "walk";
    this.next.disabled = at === rounds.length;
    this.key.hidden = scene.show === "ask";
    const end = scene.show === "whole" ? this.mixed : at;
    const begin = Math.max(0, end - WINDOW);
    this.picture.replaceChildren(
      drawing(picture(rounds.slice(begin, end), begin, scene.show === "ask")),
    );
    setText(this.words, scene.show === "walk" ? this.sentence() : "");
    this.tally.hidden = scene.show === "ask";
    this.tally.replaceChildren(
      ...rounds
        .slice(1, at)
        .map(({ hit }) => element("i", hit ? "is-hit" : "is-miss", hit ? "✓" : "✗")),
    );
  }

  // Return how many rounds from the first on must be shown, so that they include a round whose
  // draft was prepared in time and a round whose draft was not.
  get mixed() {
    const missed = this.rounds.findIndex(({ hit }, at) => at > 1 && !hit);
    return Math.min(this.rounds.length, Math.max(WINDOW, missed + 2));
  }

  sentence() {
    const { rounds, at } = this;
    const round = rounds[at - 1];
    const time = round.draft
      ? `${(1000 * (round.draft.end - round.draft.start)).toPrecision(2)} ms`
      : "0 ms";
    if (at === 1)
      return `Round 1: nothing could be prepared for it. Its guesses took ${time} before the target began.`;
    return round.hit
      ? `Round ${at}: what happened was among the ${round.prepared} outcomes that were prepared. The guesses were there after ${time}.`
      : `Round ${at}: what happened was not among the ${round.prepared} that were prepared. New guesses took ${time}, and the target waited.`;
  }
}

const NUMBERS = [
  "rounds",
  "hits",
  "misses",
  "hit_share",
  "late",
  "soon",
  "verify",
  "wait",
  "ahead",
  "prepared",
  "hit_round",
  "miss_round",
  "late_cost",
];

// Return a picture of when each model worked during a few rounds. If `isAsked`, the lesson is
// asking what the draft did during verification, so the picture hides that work.
/**
 * @param {import("./clock_rounds.js").ClockRound[]} rounds
 * @param {number} before number of rounds before the first shown one
 * @param {boolean} isAsked
 */
function picture(rounds, before, isAsked) {
  const begin = rounds[0].start;
  const span =
    Math.max(rounds[rounds.length - 1].end - begin, 1e-9) *
    (rounds.length < WINDOW ? WINDOW / rounds.length : 1);
  const x = (/** @type {number} */ time) => LEFT + ((time - begin) / span) * (WIDTH - LEFT);
  const block = (
    /** @type {{ start: number, end: number } | null} */ each,
    /** @type {number} */ lane,
    /** @type {string} */ name,
  ) =>
    each
      ? `<rect x="${x(each.start)}" y="${TOP + lane * (LANE + GAP)}" width="${Math.max(1, x(each.end) - x(each.start))}" height="${LANE}" rx="3" class="clock-is-${name}"/>`
      : "";
  const parts = rounds.map((round, at) => {
    const number = before + at + 1;
    const mark = number === 1 || isAsked ? "" : round.hit ? " ✓" : " ✗";
    return `<line x1="${x(round.start)}" x2="${x(round.start)}" y1="${TOP - 8}" y2="${HEIGHT - 22}" class="grid"/>
      <text x="${x(round.start) + 4}" y="${TOP - 10}">${at ? "" : "round "}${number}${mark}</text>
      ${block(round.verify, 0, "verify")}${block(round.draft, 1, "draft")}${isAsked ? "" : block(round.ahead, 1, "ahead")}`;
  });
  const until = rounds[rounds.length - 1].end;
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="Target and draft on one clock">
    <text x="0" y="${TOP + LANE / 2 + 4}">target</text><text x="0" y="${TOP + LANE + GAP + LANE / 2 + 4}">draft</text>${parts.join("")}
    <text x="${x(until)}" y="${HEIGHT - 6}" text-anchor="end">${(1000 * until).toFixed(0)} ms</text></svg>`;
}
