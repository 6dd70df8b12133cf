// One lesson: the current step with its widget, and the answers so far. The page chooses the step.

import { element, setText } from "../shared/dom.js";
import { FormulaView } from "./formula_view.js";
import { notebookLink } from "./learn_address.js";
import { LessonText } from "./lesson_text.js";
import { optionOf, rightOption, typedOption, undecidedWords } from "./lesson_answers.js";
import { NumberForm } from "./number_form.js";
import { WIDGETS } from "./widgets.js";

/** @typedef {import("./progress.js").Progress} Progress */
/** @typedef {{ widget: import("./widget.js").Widget, box: HTMLElement, text: LessonText }} Staged a widget of this lesson, its element, and the texts that contain its values */

const OTHER = { name: "·", text: "another number" }; // the answer if a typed number matches no option
/** @type {Partial<Record<LessonGroupName, string>>} */
const PLACES = {
  optional: "A further lesson",
  exercise: "An exercise",
  misconception: "Often believed",
};

const MOST_WORDS = 600; // longest question to a class, in characters

export class LessonView {
  /**
   * @param {Refs} refs
   * @param {LessonRecord} lesson
   * @param {WidgetKindRecord[]} kinds the kinds of widgets, from the server
   * @param {Course} course
   * @param {{ progress: Progress, go: (step: number) => void, link: (step: number) => string, onward: string }} on `onward` is the label of the button on the last step
   */
  constructor(refs, lesson, kinds, course, { progress, go, link, onward }) {
    this.refs = refs;
    this.lesson = lesson;
    this.kinds = kinds;
    this.course = course;
    this.progress = progress;
    this.go = go;
    this.link = link;
    this.onward = onward;
    this.at = 0;
    /** @type {Record<string, string>} step -> answer given since the page was loaded; it is shown again if the learner returns */
    this.given = {};
    /** @type {Set<string>} steps whose question was answered correctly since the page was loaded */
    this.solved = new Set();
    /** @type {Map<string, Record<string, any>>} step -> values that its question contained when it was answered */
    this.asked = new Map();
    this.isReached = false;
    this.number = new NumberForm((typed) =>
      this.choose(
        typedOption(this.step, this.widget.values, (value) => this.text.formats.get(value), typed)
          ?.name ?? OTHER.name,
      ),
    );
    /** @type {Map<string, Staged>} */
    this.staged = new Map();
    refs.lessonStage.replaceChildren();
    this.formula = new FormulaView(refs.lessonFormula, this.stagedFor(this.step).text);
    setText(refs.lessonTitle, lesson.title);
  }

  // Return the widget of a step. A widget is made when it is first needed. Its events are ignored
  // while it is hidden.
  /** @param {LessonStepRecord} step */
  stagedFor(step) {
    const name = step.widget || this.lesson.widget;
    const known = this.staged.get(name);
    if (known) return known;
    const box = element("div");
    this.refs.lessonStage.append(box);
    const Kind = /** @type {NonNullable<ReturnType<typeof WIDGETS.get>>} */ (WIDGETS.get(name));
    const isShown = () => (this.step.widget || this.lesson.widget) === name;
    const widget = new Kind(box, this.course, {
      changed: () => isShown() && this.changed(),
      reached: (goal) => isShown() && this.reached(goal),
    });
    const text = new LessonText(
      /** @type {WidgetKindRecord} */ (this.kinds.find((kind) => kind.name === name)),
    );
    const made = { widget, box, text };
    this.staged.set(name, made);
    return made;
  }

  get widget() {
    return this.stagedFor(this.step).widget;
  }

  get text() {
    return this.stagedFor(this.step).text;
  }

  get step() {
    return this.lesson.steps[this.at];
  }

  /** @param {number} at */
  async show(at) {
    this.at = at;
    this.isReached = false;
    this.number.clear();
    const { step } = this;
    const shown = this.stagedFor(step);
    for (const { widget, box } of this.staged.values()) {
      if (widget !== shown.widget) widget.halt();
      box.hidden = widget !== shown.widget;
    }
    this.formula.text = shown.text;
    this.draw();
    try {
      await this.widget.set(Object.fromEntries(step.scene));
      if (step === this.step && this.isShownAgain) this.widget.reveal();
      this.refs.lessonStage.removeAttribute("data-failed");
    } catch (error) {
      this.refs.lessonStage.dataset.failed = `${/** @type {Error} */ (error).message} Go back and forth to try again.`;
    }
    this.refresh();
  }

  // Return whether the learner has come back to a question that was answered before. In that case,
  // the widget may show the parts that it hides until the question is answered.
  get isShownAgain() {
    return (
      this.step.kind !== "predict" && this.given[this.step.name] !== undefined && this.isAnswered
    );
  }

  /** @param {string} name */
  choose(name) {
    const { step, widget } = this;
    const isTold = step.kind !== "predict" && this.given[step.name] !== undefined;
    this.given[step.name] = name;
    const detail = { place: this.place, option: name };
    if (!isTold)
      this.refs.lessonPage.dispatchEvent(new CustomEvent("answered", { bubbles: true, detail }));
    if (step.kind === "predict")
      (this.progress.answer(this.lesson.name, step.name, name),
        this.asked.set(step.name, widget.values));
    else if (step.kind === "case" || this.isAnswered) widget.reveal();
    if (this.isAnswered) this.solved.add(step.name);
    if (this.isLast && this.isAnswered) this.progress.set(this.lesson.name, { done: true });
    this.draw();
  }

  /** @param {string} goal */
  reached(goal) {
    if (goal !== this.step.goal || this.isReached) return;
    this.isReached = true;
    this.progress.reach(this.lesson.name, this.step.name);
    this.draw();
  }

  get place() {
    return `${this.lesson.name}/${this.step.name}`;
  }

  // The question of the current step as the page shows it, or null. Some of its numbers may arrive
  // later.
  /** @returns {PageQuestion | null} */
  get question() {
    const { step, refs, place } = this;
    if (!step.options.length) return null;
    const options = step.options.map(({ name, text }) => ({
      name,
      text: this.text.inline(element("span"), text).textContent ?? "",
    }));
    if (step.kind === "number") {
      // Students type a number, so a class sees these options only together with the result. They
      // can therefore say which ones are right.
      for (const [at, { right }] of step.options.entries())
        if (right) options[at].text += " (right)";
      options.push(OTHER);
    }
    const words = [refs.lessonStepTitle, ...refs.lessonText.children]
      .map(({ textContent }) => textContent)
      .join("\n")
      .slice(0, MOST_WORDS);
    return { kind: "prediction", place, words, guess: "", options };
  }

  // A lesson is divided into parts. This is the title of the part that contains the current step.
  get part() {
    return this.lesson.steps.slice(0, this.at + 1).findLast(({ part }) => part)?.part ?? "";
  }

  get isLast() {
    return this.at === this.lesson.steps.length - 1;
  }

  get isAnswered() {
    const { step } = this;
    const given = this.given[step.name];
    if (step.kind !== "check" && step.kind !== "number") return given !== undefined;
    // A learner who has given the right answer may also read the replies to the wrong answers.
    return this.solved.has(step.name) || (given !== undefined && given === this.rightOption?.name);
  }

  get rightOption() {
    return rightOption(this.step, this.widget.values, this.widget.possible);
  }

  // Return whether the learner has done everything in this step.
  get isOver() {
    const { kind } = this.step;
    if (kind === "read") return true;
    return kind === "try" ? this.isReached : this.isAnswered;
  }

  draw() {
    const { refs, step, text, lesson } = this;
    text.values = this.widget.values;
    const place = PLACES[lesson.group] ?? `Lesson ${lesson.number}`;
    setText(refs.lessonPlace, `${place}, step ${this.at + 1} of ${lesson.steps.length}`);
    setText(refs.lessonPart, this.part);
    refs.lessonWords.dataset.kind = step.kind;
    text.inline(refs.lessonStepTitle, step.title);
    refs.lessonText.replaceChildren(...text.paragraphs(step.text));
    text.inline(refs.lessonTask, step.task);
    refs.lessonTask.hidden = !step.task;
    refs.lessonTask.classList.toggle("is-done", this.isReached);
    this.drawLink();
    this.drawOptions();
    refs.lessonAfter.replaceChildren(...this.replies());
    // the formula may contain the answer, so it stays hidden until the learner has answered
    this.formula.show(step.options.length && !this.isAnswered ? null : step.formula);
    this.drawMoves();
    refs.lessonSteps.replaceChildren(...lesson.steps.map((_, at) => this.dot(at)));
  }

  drawLink() {
    const { refs, step } = this;
    refs.lessonLink.hidden = !step.link;
    if (!step.link) return;
    const link = element("a", "", `${step.link.text} ↗`);
    link.href = new URL(`?${step.link.address}`, window.location.href).href;
    link.target = "_blank"; // a new tab, so that the lesson stays open
    refs.lessonLink.replaceChildren(link, element("span", "hint", " in a tab of its own"));
  }

  drawOptions() {
    const { step, refs } = this;
    if (step.kind === "number") {
      refs.lessonOptions.hidden = false;
      if (!refs.lessonOptions.contains(this.number.box))
        refs.lessonOptions.replaceChildren(this.number.box);
      return;
    }
    const given = this.given[step.name];
    const held = refs.lessonOptions.contains(document.activeElement)
      ? /** @type {any} */ (document.activeElement).dataset.option
      : null;
    refs.lessonOptions.hidden = !step.options.length;
    refs.lessonOptions.replaceChildren(
      ...step.options.map((option) => {
        const made = element("button", "lesson-option");
        made.type = "button";
        made.dataset.option = option.name;
        made.setAttribute("aria-pressed", String(option.name === given));
        this.text.inline(made, option.text);
        made.addEventListener("click", () => this.choose(option.name));
        return made;
      }),
    );
    if (held)
      refs.lessonOptions.querySelector(`[data-option="${held}"]`)?.focus({ preventScroll: true });
  }

  // Return the texts that follow an answer or a reached goal.
  replies() {
    const { step } = this;
    const said = [];
    if (step.kind === "predict" && this.isAnswered)
      said.push(element("p", "hint", "Your answer is noted. You will see."));
    if (["case", "check", "number"].includes(step.kind) && this.given[step.name])
      said.push(this.reply(step, this.given[step.name]));
    if (step.compare) said.push(...this.compared());
    if (this.isOver && step.after) said.push(...this.text.paragraphs(step.after));
    if (this.isOver && this.isLast) said.push(this.ending(), notebookLink(this.lesson));
    return said.filter((each) => each !== null);
  }

  // Return the summary at the end of the lesson.
  ending() {
    const made = element("p", "lesson-ending");
    made.append(element("b", "", "To take along: "), this.lesson.learned);
    return made;
  }

  /**
   * @param {LessonStepRecord} step
   * @param {string} name
   * @param {Record<string, any>} [values] the values when the question was asked, instead of the current ones
   */
  reply(step, name, values) {
    const option = optionOf(step, name);
    const [known, possible] = values ? [values, {}] : [this.widget.values, this.widget.possible];
    const undecided = undecidedWords(step, known, possible);
    if (undecided) {
      const said = element("p", "lesson-reply is-undecided");
      said.append(element("b", "", "Not decided. "), undecided);
      return said;
    }
    const isRight = rightOption(step, known, possible)?.name === name;
    const made = element("p", isRight ? "lesson-reply is-right" : "lesson-reply is-wrong");
    made.append(element("b", "", isRight ? "Right. " : "Not quite. "));
    if (step.kind === "number" && option && !isRight)
      made.append(this.text.inline(element("span"), `That is ${option.text}. `));
    made.append(this.text.inline(element("span"), option?.reply ?? step.otherwise, values));
    return made;
  }

  // Return a text that compares the learner's prediction from an earlier step with what this step
  // has shown.
  compared() {
    const { step, lesson } = this;
    const asked = lesson.steps.find(({ name }) => name === step.compare);
    const given = this.progress.of(lesson.name).answers[step.compare];
    if (!asked || !given || !this.isOver || !optionOf(asked, given)) return [];
    const made = element("p", "lesson-predicted");
    const { fixed, locked } = Object.fromEntries(asked.scene);
    // The widget may show other values now than when it asked this question. The reply needs the
    // values of that moment.
    const isHeld = fixed === "true" || locked === "true";
    const values = isHeld ? this.asked.get(asked.name) : undefined;
    if (isHeld && !values) return []; // a reload has lost the values of that moment
    made.append(
      element("span", "hint", "You predicted: "),
      this.text.inline(element("em"), optionOf(asked, given)?.text ?? "", values),
    );
    return [made, this.reply(asked, given, values)];
  }

  drawMoves() {
    const { refs, step } = this;
    refs.lessonPrevious.hidden = this.at === 0;
    refs.lessonNext.disabled = !this.isOver && step.kind !== "try";
    const isSkipped = !this.isOver && step.kind === "try";
    setText(refs.lessonNext, this.isLast ? this.onward : isSkipped ? "Skip this" : "Next");
    refs.lessonNext.classList.toggle("secondary", isSkipped);
    refs.lessonNext.classList.toggle("primary", !isSkipped);
  }

  /** @param {number} at */
  dot(at) {
    const item = element("li");
    const link = element("a");
    const { name, title, part } = this.lesson.steps[at];
    item.classList.toggle("begins-part", at > 0 && part !== "");
    link.href = this.link(at);
    link.dataset.step = name;
    link.setAttribute("aria-label", `Step ${at + 1}: ${title.replace(/\{[^}]*\}/g, "…")}`);
    if (at === this.at) link.setAttribute("aria-current", "step");
    item.append(link);
    return item;
  }

  // React to new values of the widget. If they are a measurement, another answer may now be right.
  changed() {
    if (this.step.kind === "case" && this.step.value && this.isAnswered) this.draw();
    // The learner answered the question before the widget's new values arrived, so store them with
    // the question now.
    if (this.asked.has(this.step.name)) this.asked.set(this.step.name, this.widget.values);
    this.refresh();
  }

  // Update the numbers in the texts.
  refresh() {
    const { refs, text } = this;
    text.refresh(refs.lessonPage, this.widget.values);
    this.formula.refresh();
  }
}
