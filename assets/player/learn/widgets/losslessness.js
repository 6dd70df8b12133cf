// A widget that tests whether a rule is lossless. The server draws one position of a text thousands
// of times, by the correct rule or by a wrong rule of the bug zoo. The widget shows the draws next
// to p, a verdict, and a curve of the distance between the draws and p together with its noise
// floor.

import { CURVE } from "../../shared/came_out.js";
import { drawing, element, giveTurn, option, setText } from "../../shared/dom.js";
import {
  barsKey,
  curveKey,
  drawDistance,
  drawnRows,
  finding,
  findingClass,
  findingWords,
  verdictWords,
} from "../../shared/drawn_counts.js";
import { waitingWords } from "../../shared/number_words.js";
import { tokenLabel } from "../../shared/token_label.js";
import { Transport } from "../../shared/transport.js";
import { Widget } from "../widget.js";
import { largestGap, suspects } from "./suspects.js";

const RIGHT = "right";
const DRAWS = "4000";
// If the first draws gave no clear result, the next series is longer by this factor. The second
// value is the largest number of draws (specviz/experiments/bug_zoo/laboratory.py).
const [FURTHER, MOST] = [4, 50_000];
const PLACES = ["as the first token", "as the second"];
const STEP_MILLISECONDS = 90; // pause between two blocks of draws, so that the learner can watch

// The names of the recorded draws (specviz/ui/course/lesson_recordings.py). A key consists of the
// rule, the draft and the temperature, separated by spaces.
/** @type {Record<string, string>} */
const RECORDINGS = {
  "right  1": "draws-right",
  "right random 1": "draws-random",
  "equal-argmax  1": "draws-favourite",
  "right  0": "draws-greedy",
  "length-by-drawn-token  1": "draws-length",
};

export class LosslessnessLab extends Widget {
  static id = "losslessness";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on);
    /** @type {Specimen[]} */
    this.specimens = course.setup.lab.zoo.specimens;
    /** @type {Record<string, string>} the form of the position that is drawn */
    this.form = course.setup.lab.zoo.form;
    /** @type {Record<string, string>} */
    this.scene = {};
    this.rule = RIGHT; // the acceptance rule with which tokens are drawn
    this.found = new Set(); // wrong rules that the learner has found
    /** @type {any[]} blocks of draws that have arrived and are not shown yet */
    this.blocks = [];
    /** @type {any[]} */
    this.history = [];
    /** @type {any} the last block that is shown */
    this.last = null;
    this.isOver = false;
    this.goal = 0; // number of draws in the whole series
    this.isRecorded = false;
    this.isRevealed = false; // true if the name of a secret rule is shown
    this.timer = 0;
    this.answer = ""; // the rule that the learner named in the quiz
    this.transport = new Transport(course.gradio, {
      accepted: () => setText(this.state, "starting …"),
      message: (message) => this.take(message),
      queued: (ahead, running) => setText(this.state, waitingWords(ahead, running)),
      failed: (text) => this.failed(text),
    });
    this.context = element("p", "guess-context");
    this.choice = element("select");
    this.choice.append(...this.specimens.map(({ name, title }) => option(name, title)));
    this.choice.addEventListener("change", () => this.choose(this.choice.value));
    this.menu = element("label", "zoo-menu");
    this.menu.append("Rule", this.choice);
    this.what = element("p", "zoo-what");
    this.go = element("button", "primary");
    this.go.type = "button";
    this.go.addEventListener("click", () => this.start());
    this.end = element("button", "chip", "Stop");
    this.end.type = "button";
    this.end.addEventListener("click", () => this.transport.stop());
    this.old = element("button", "chip", "Show a recorded run");
    this.old.type = "button";
    this.old.dataset.replay = "";
    this.old.addEventListener("click", () => this.replay());
    this.state = element("span", "hint");
    this.buttons = element("p", "row tight");
    this.buttons.append(this.go, this.end, this.old);
    this.source = element("p", "hint measure-state");
    this.source.append(this.state);
    this.cells = [0, 1].map(() => ({ title: element("h4"), bins: element("ol", "redraw-bins") }));
    this.curve = /** @type {SVGElement} */ (drawing(CURVE));
    const side = element("div", "redraw-side");
    side.append(this.curve, curveKey());
    this.verdict = element("p", "guess-verdict");
    this.verdict.setAttribute("role", "status");
    this.names = element("div", "zoo-names");
    this.reply = element("p", "zoo-reply");
    this.reply.setAttribute("role", "status");
    const redraw = element("div", "redraw");
    redraw.append(
      this.buttons,
      this.source,
      this.names,
      this.reply,
      barsKey(),
      ...this.cells.flatMap(({ title, bins }) => [title, bins]),
      side,
      this.verdict,
    );
    this.box.classList.add("guess");
    this.box.replaceChildren(this.context, this.menu, this.what, redraw);
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.isRevealed = false;
    this.halt();
    this.menu.hidden = scene.rule !== "menu";
    this.buttons.hidden = scene.locked === "true"; // the learner must first make a prediction
    const rule = scene.rule === "menu" ? this.choice.value : scene.rule;
    this.choose(scene.rule === "quiz" ? this.deal() : (rule ?? RIGHT));
  }

  // Show the recorded draws, and name the rule that was kept secret until the learner answered.
  reveal() {
    this.isRevealed = true;
    if (this.scene.locked === "true") this.replay();
    else this.draw();
  }

  // The recording for the current rule, draft and temperature, or undefined if there is none.
  get recording() {
    const { rule, scene } = this;
    return this.course.recorded[
      RECORDINGS[`${rule} ${scene.draft ?? ""} ${scene.temperature ?? "1"}`] ?? ""
    ];
  }

  // Show recorded draws in the same way as draws that the server makes now.
  replay() {
    const { recording } = this;
    if (!recording || this.transport.isBusy) return;
    this.begin(true, Number(recording.messages.findLast(({ kind }) => kind === "counts")?.draws));
    for (const message of recording.messages) this.take(message);
  }

  /**
   * @param {boolean} isRecorded
   * @param {number} goal
   */
  begin(isRecorded, goal) {
    window.clearTimeout(this.timer);
    this.timer = 0;
    this.blocks = [];
    this.history = [];
    this.isOver = false;
    this.goal = goal;
    this.isRecorded = isRecorded;
  }

  // Choose another rule and remove the draws by the rule before.
  /** @param {string} rule */
  choose(rule) {
    this.halt();
    this.rule = rule;
    this.last = null;
    this.history = [];
    this.isOver = false;
    this.goal = this.wanted;
    setText(this.go, `Draw ${this.goal.toLocaleString("en")} times`);
    this.draw();
    this.on.changed();
  }

  // Choose a secret rule, and offer descriptions of several rules, one of which describes it.
  deal() {
    const { dealt, names } = suspects(this.specimens, Math.random);
    this.names.replaceChildren(
      ...names.map((specimen) => {
        const made = element("button", "lesson-option", specimen.wrong);
        made.type = "button";
        made.dataset.suspect = String(specimen.name === dealt);
        made.addEventListener("click", () => this.name(specimen.name));
        return made;
      }),
    );
    this.answer = "";
    return dealt;
  }

  /** @param {string} name */
  name(name) {
    this.answer = name;
    this.draw();
    if (name === this.rule && this.last) this.on.reached("named");
    this.on.changed();
  }

  // The number of draws to make. It is larger than usual if the first draws gave no clear result,
  // or if the rule changes the distribution only a little.
  get wanted() {
    const isSubtle =
      this.scene.rule === "menu" &&
      Boolean(this.specimen && (this.specimen.siblings > 1 || this.specimen.text));
    const usual = (isSubtle ? FURTHER : 1) * Number(this.scene.draws ?? DRAWS);
    const isOpen =
      this.isOver && !this.isRecorded && this.last && finding(this.last) === "undecided";
    return isOpen ? Math.min(MOST, FURTHER * this.goal) : usual;
  }

  get specimen() {
    return this.specimens.find(({ name }) => name === this.rule) ?? null;
  }

  // The text whose next tokens are drawn.
  get prompt() {
    return this.specimen?.text || this.form.prompt;
  }

  get isQuiz() {
    return this.scene.rule === "quiz";
  }

  get values() {
    const { last, specimen, isQuiz, history } = this;
    const named = isQuiz && !this.isNamed ? null : specimen;
    const gap = last ? largestGap(last.cells) : undefined;
    return {
      draws: last?.draws ?? this.goal,
      goal: Number(this.scene.draws ?? DRAWS),
      kinds: this.specimens.length,
      rule: named?.title ?? "the decoder’s own rule",
      wrong: named?.wrong ?? "",
      tell: named?.tell ?? "",
      distance: last?.distance.total_variation,
      floor: last?.distance.noise_floor,
      early_distance: history[0]?.distance.total_variation,
      chi_square: last?.distance.chi_square,
      freedom: last?.distance.degrees_of_freedom,
      p_value: last?.distance.p_value,
      finding: last && findingWords(last),
      kept: last ? last.accepted / last.draws : undefined,
      more_token: gap?.text,
      more_came: gap?.came,
      more_p: gap?.p,
      more_place: gap && PLACES[gap.cell],
    };
  }

  async start() {
    if (this.transport.isBusy) return;
    const { scene, rule, wanted } = this;
    this.begin(false, wanted);
    giveTurn(this.go, this.end, true);
    const form = {
      ...this.form,
      prompt: this.prompt,
      temperature: scene.temperature ?? "1",
      seed: String(Math.floor(Math.random() * 1e6)),
    };
    await this.transport.start("measure", {
      what: "losslessness",
      form,
      rule,
      draft: scene.draft ?? "",
      draws: wanted,
    });
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "error") return this.failed(message.text);
    if (message.kind === "counts") this.blocks.push(message);
    if (message.kind === "end") this.isOver = true;
    if (!this.timer) this.show();
  }

  // Show the next block of draws. Show all at once if the system setting asks for reduced motion.
  show() {
    this.timer = 0;
    const isStill = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const shown = this.blocks.splice(0, isStill ? this.blocks.length : 1);
    if (shown.length) {
      this.history.push(...shown);
      this.last = shown.at(-1);
      setText(
        this.state,
        this.isRecorded ? `Recorded on ${this.recording?.machine}.` : "Drawn here, just now.",
      );
    }
    const isDone = this.isOver && !this.blocks.length;
    if (isDone) this.done();
    else if (this.blocks.length)
      this.timer = window.setTimeout(() => this.show(), STEP_MILLISECONDS);
    this.draw();
    this.on.changed();
  }

  done() {
    giveTurn(this.go, this.end, false);
    const { wanted } = this;
    if (!this.isRecorded)
      setText(
        this.go,
        wanted > this.goal ? `Draw ${wanted.toLocaleString("en")} times` : "Draw again",
      );
    if (!this.last) return;
    if (this.last.is_other) this.found.add(this.rule);
    this.on.reached("drawn");
    // the learner had named the rule before these draws arrived
    if (this.isQuiz && this.isNamed) this.on.reached("named");
    if (this.scene.rule === "menu" && this.last.is_other) this.on.reached("found");
  }

  /** @param {string} text */
  failed(text) {
    giveTurn(this.go, this.end, false);
    setText(this.state, text);
  }

  halt() {
    window.clearTimeout(this.timer);
    this.timer = 0;
    this.blocks = [];
    this.transport.leave();
    giveTurn(this.go, this.end, false);
    setText(this.state, "");
  }

  draw() {
    const { last, specimen, isQuiz, scene } = this;
    const isTold = isQuiz ? this.isNamed : scene.secret !== "true" || this.isRevealed;
    this.old.hidden = !this.recording || isQuiz; // the quiz shows no recording, because its existence would reveal the rule
    const still = last ?? this.blank;
    this.what.hidden = !specimen || !isTold;
    this.names.hidden = !isQuiz;
    this.context.replaceChildren(
      this.prompt.replace("\n", " ⏎ "),
      " ",
      element("mark", "hint", "next token"),
    );
    // The description says whether the rule is wrong, so it is shown only after the answer.
    if (specimen && isTold)
      this.what.replaceChildren(
        element("b", "", `${specimen.title}. `),
        `${specimen.wrong} `,
        element("span", "hint", last ? specimen.seen : ""),
      );
    this.cells.forEach(({ title, bins }, at) => {
      const behind =
        at && still
          ? [", where the next one is ", element("code", "", tokenLabel(still.usual))]
          : [];
      title.replaceChildren(at ? "The token after it" : "The next token", ...behind);
      bins.setAttribute("aria-label", title.textContent ?? "");
      bins.replaceChildren(...drawnRows(still?.cells[at] ?? []));
    });
    drawDistance(this.curve, this.history, this.goal);
    this.drawVerdict(scene.temperature === "0");
    setText(this.reply, this.answerWords());
    this.reply.hidden = !isQuiz;
    for (const made of /** @type {NodeListOf<HTMLElement>} */ (
      this.names.querySelectorAll("button")
    )) {
      const isAnswer =
        made.textContent === this.specimens.find(({ name }) => name === this.answer)?.wrong;
      made.setAttribute("aria-pressed", String(isAnswer));
    }
  }

  // The position before any draws: the target's probabilities, from a recording that is the same
  // for all rules, or null if it is of another text.
  get blank() {
    if (this.prompt !== this.form.prompt) return null;
    const name = this.scene.temperature === "0" ? "draws-greedy" : "draws-right";
    const block = this.course.recorded[name]?.messages.find(({ kind }) => kind === "counts");
    const empty = (/** @type {any[]} */ cell) => cell.map((each) => ({ ...each, count: 0 }));
    return block && { ...block, cells: block.cells.map(empty) };
  }

  /** @param {boolean} isGreedy */
  drawVerdict(isGreedy) {
    const { last } = this;
    const isDone = this.isOver && !this.blocks.length && last !== null;
    this.verdict.className = `guess-verdict${isDone ? findingClass(last) : ""}`;
    const before = this.blank
      ? "Nothing is drawn yet: the marks are what the target says."
      : "Nothing is drawn yet.";
    setText(this.verdict, last ? verdictWords(last, isDone, isGreedy) : before);
  }

  // Return whether the learner has named the rule and there are draws to support it.
  get isNamed() {
    return this.last !== null && this.answer === this.rule;
  }

  answerWords() {
    const { last } = this;
    if (!this.isQuiz || !this.answer) return "";
    if (!last) return "Draw first: without counts it may be any of them.";
    if (this.isNamed) return "Found.";
    const seen =
      finding(last) === "other"
        ? "Look at which tokens come too often, and in which of the two places."
        : "Nothing is seen to come too often. Which of these rules would show, and which only takes longer?";
    return `It is not that one. ${seen}`;
  }
}
