// The losslessness laboratory: one place of a text, drawn thousands of times by the server, by the right rule
// or by one of the zoo; what came out beside p, the distance falling with its noise floor, and a verdict.

import { CURVE } from "../../shared/came_out.js";
import { drawing, element, giveTurn, option, setText } from "../../shared/dom.js";
import { barsKey, curveKey, drawDistance, drawnRows, finding, findingClass, findingWords, verdictWords } from "../../shared/drawn_counts.js";
import { waitingWords } from "../../shared/number_words.js";
import { tokenLabel } from "../../shared/token_label.js";
import { Transport } from "../../shared/transport.js";
import { Widget } from "../widget.js";
import { largestGap, suspects } from "./suspects.js";

const RIGHT = "right";
const DRAWS = "4000";
const [FURTHER, MOST] = [4, 50_000]; // how many times more draws where few did not decide, and the most (specviz/experiments/bug_zoo/laboratory.py)
const PLACES = ["as the first token", "as the second"];
const STEP_MILLISECONDS = 90; // from one block of draws to the next, so that one can watch
// Recorded draws by rule, draft and temperature (specviz/ui/course/lesson_recordings.py).
/** @type {Record<string, string>} */
const RECORDINGS = { "right  1": "draws-right", "right random 1": "draws-random", "equal-argmax  1": "draws-favourite", "right  0": "draws-greedy" };

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
    /** @type {Record<string, string>} of the place that is drawn */
    this.form = course.setup.lab.zoo.form;
    /** @type {Record<string, string>} */
    this.scene = {};
    this.rule = RIGHT; // what is drawn by
    this.found = new Set(); // wrong rules that were found
    /** @type {any[]} blocks that came and are not shown yet */
    this.blocks = [];
    /** @type {any[]} */
    this.history = [];
    /** @type {any} the last block that is shown */
    this.last = null;
    this.isOver = false;
    this.goal = 0; // of the draws that are shown
    this.isRecorded = false;
    this.isRevealed = false; // the name of a rule that is secret
    this.timer = 0;
    this.answer = ""; // of the quiz
    this.transport = new Transport(course.gradio, {
      accepted: () => setText(this.state, "starting …"),
      message: (message) => this.take(message),
      queued: (ahead, running) => setText(this.state, waitingWords(ahead, running)),
      failed: (text) => this.failed(text),
    });
    const context = element("p", "guess-context");
    context.append(this.form.prompt.replace("\n", " ⏎ "), " ", element("mark", "hint", "next token"));
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
    redraw.append(this.buttons, this.source, this.names, this.reply, barsKey(), ...this.cells.flatMap(({ title, bins }) => [title, bins]), side, this.verdict);
    this.box.classList.add("guess");
    this.box.replaceChildren(context, this.menu, this.what, redraw);
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.isRevealed = false;
    this.halt();
    this.menu.hidden = scene.rule !== "menu";
    this.buttons.hidden = scene.locked === "true"; // nothing is revealed before it was predicted
    const rule = scene.rule === "menu" ? this.choice.value : scene.rule;
    this.choose(scene.rule === "quiz" ? this.deal() : (rule ?? RIGHT));
  }

  // What was asked is answered: the recorded draws come, and a secret rule gets its name.
  reveal() {
    this.isRevealed = true;
    if (this.scene.locked === "true") this.replay();
    else this.draw();
  }

  // Of the rule and the place that are chosen; undefined where nothing was recorded.
  get recording() {
    const { rule, scene } = this;
    return this.course.recorded[RECORDINGS[`${rule} ${scene.draft ?? ""} ${scene.temperature ?? "1"}`] ?? ""];
  }

  // Recorded draws, shown as those that are measured here.
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

  // Another rule: nothing is drawn yet.
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

  // One that nobody is told, and four sentences of which one is its own.
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

  // So many draws are asked for, and more where they did not decide, or where the rule shifts little.
  get wanted() {
    const isSubtle = this.scene.rule === "menu" && (this.specimen?.siblings ?? 1) > 1;
    const usual = (isSubtle ? FURTHER : 1) * Number(this.scene.draws ?? DRAWS);
    const isOpen = this.isOver && !this.isRecorded && this.last && finding(this.last) === "undecided";
    return isOpen ? Math.min(MOST, FURTHER * this.goal) : usual;
  }

  get specimen() {
    return this.specimens.find(({ name }) => name === this.rule) ?? null;
  }

  get isQuiz() {
    return this.scene.rule === "quiz";
  }

  get values() {
    const { last, specimen, isQuiz, history } = this;
    const told = isQuiz && !this.isNamed ? null : specimen;
    const gap = last ? largestGap(last.cells) : undefined;
    return {
      draws: last?.draws ?? this.goal, goal: Number(this.scene.draws ?? DRAWS), kinds: this.specimens.length,
      rule: told?.title ?? "the decoder’s own rule", wrong: told?.wrong ?? "", tell: told?.tell ?? "",
      distance: last?.distance.total_variation, floor: last?.distance.noise_floor,
      early_distance: history[0]?.distance.total_variation,
      chi_square: last?.distance.chi_square, freedom: last?.distance.degrees_of_freedom, p_value: last?.distance.p_value,
      finding: last && findingWords(last),
      kept: last ? last.accepted / last.draws : undefined,
      more_token: gap?.text, more_came: gap?.came, more_p: gap?.p, more_place: gap && PLACES[gap.cell],
    };
  }

  // ---- drawing many

  async start() {
    if (this.transport.isBusy) return;
    const { scene, rule, wanted } = this;
    this.begin(false, wanted);
    giveTurn(this.go, this.end, true);
    const form = { ...this.form, temperature: scene.temperature ?? "1", seed: String(Math.floor(Math.random() * 1e6)) };
    await this.transport.start("measure", { what: "losslessness", form, rule, draft: scene.draft ?? "", draws: wanted });
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "error") return this.failed(message.text);
    if (message.kind === "counts") this.blocks.push(message);
    if (message.kind === "end") this.isOver = true;
    if (!this.timer) this.show();
  }

  // The next block; all at once for who wants no motion.
  show() {
    this.timer = 0;
    const isStill = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const shown = this.blocks.splice(0, isStill ? this.blocks.length : 1);
    if (shown.length) {
      this.history.push(...shown);
      this.last = shown.at(-1);
      setText(this.state, this.isRecorded ? `Recorded on ${this.recording?.machine}.` : "Drawn here, just now.");
    }
    const isDone = this.isOver && !this.blocks.length;
    if (isDone) this.done();
    else if (this.blocks.length) this.timer = window.setTimeout(() => this.show(), STEP_MILLISECONDS);
    this.draw();
    this.on.changed();
  }

  done() {
    giveTurn(this.go, this.end, false);
    const { wanted } = this;
    if (!this.isRecorded) setText(this.go, wanted > this.goal ? `Draw ${wanted.toLocaleString("en")} times` : "Draw again");
    if (!this.last) return;
    if (this.last.is_other) this.found.add(this.rule);
    this.on.reached("drawn");
    if (this.isQuiz && this.isNamed) this.on.reached("named"); // it was named before
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

  // ---- what is shown

  draw() {
    const { last, specimen, isQuiz, scene } = this;
    const isTold = isQuiz ? this.isNamed : scene.secret !== "true" || this.isRevealed;
    this.old.hidden = !this.recording || isQuiz; // that there is one would tell the rule
    const still = last ?? this.blank;
    this.what.hidden = !specimen || !isTold;
    this.names.hidden = !isQuiz;
    if (specimen && isTold) this.what.replaceChildren(element("b", "", `${specimen.title}. `), `${specimen.wrong} `, element("span", "hint", last ? specimen.seen : "")); // it tells whether the rule is wrong
    this.cells.forEach(({ title, bins }, at) => {
      const behind = at && still ? [", where the next one is ", element("code", "", tokenLabel(still.usual))] : [];
      title.replaceChildren(at ? "The token after it" : "The next token", ...behind);
      bins.setAttribute("aria-label", title.textContent ?? "");
      bins.replaceChildren(...drawnRows(still?.cells[at] ?? []));
    });
    drawDistance(this.curve, this.history, this.goal);
    this.drawVerdict(scene.temperature === "0");
    setText(this.reply, this.answerWords());
    this.reply.hidden = !isQuiz;
    for (const made of /** @type {NodeListOf<HTMLElement>} */ (this.names.querySelectorAll("button"))) {
      const isAnswer = made.textContent === this.specimens.find(({ name }) => name === this.answer)?.wrong;
      made.setAttribute("aria-pressed", String(isAnswer));
    }
  }

  // The place before anything is drawn: what the target says of it. From a recording, which all rules share.
  get blank() {
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
    setText(this.verdict, last ? verdictWords(last, isDone, isGreedy) : "Nothing is drawn yet: the marks are what the target says.");
  }

  // The rule that was dealt is named, with counts to name it by.
  get isNamed() {
    return this.last !== null && this.answer === this.rule;
  }

  answerWords() {
    const { last } = this;
    if (!this.isQuiz || !this.answer) return "";
    if (!last) return "Draw first: without counts it may be any of them.";
    if (this.isNamed) return "Found.";
    const seen = finding(last) === "other" ? "Look at which tokens come too often, and in which of the two places." : "Nothing is seen to come too often. Which of these rules would show, and which only takes longer?";
    return `It is not that one. ${seen}`;
  }
}
