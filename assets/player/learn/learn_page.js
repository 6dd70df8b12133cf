// The page of the course. It shows the list of lessons or one lesson, depending on the address.

import { element, setText } from "../shared/dom.js";
import { counted } from "../shared/number_words.js";
import { Page } from "../shared/page.js";
import { linkTo, notebookLink, OF_A_LESSON, placeInAddress } from "./learn_address.js";
import { Drive } from "./drive.js";
import { LessonView } from "./lesson_view.js";
import { Progress } from "./progress.js";
import { Recordings } from "./recordings.js";

const COURSE = new URL("../../../lessons.json", import.meta.url);
/** @type {Partial<Record<LessonGroupName, string>>} */
const MARKS = { optional: "+", exercise: "=", misconception: "?" }; // marks for lessons without a number

export class LearnPage extends Page {
  static id = "learn";
  static title = "Learn";

  /** @param {Shell} shell */
  constructor(shell) {
    super(shell);
    const { refs, setup, theme, gradio, prompts } = shell;
    this.refs = refs;
    this.progress = new Progress();
    /** @type {Course} */
    this.course = {
      setup,
      theme,
      gradio,
      prompts,
      recordings: new Recordings(gradio),
      drive: new Drive(gradio),
      recorded: {},
      noEngine: "",
    };
    /** @type {{ lessons: LessonRecord[], widgets: WidgetKindRecord[], recorded: Record<string, RecordedOrder>, no_engine: string } | null} */
    this.offer = null;
    /** @type {LessonView | null} */
    this.view = null;
    refs.lessonBack.addEventListener("click", (/** @type {any} */ event) =>
      this.follow(event, null),
    );
    refs.lessonPrevious.addEventListener("click", () => this.move(-1));
    refs.lessonNext.addEventListener("click", () => this.move(1));
    refs.lessonSteps.addEventListener("click", (/** @type {any} */ event) =>
      this.followStep(event),
    );
    refs.learnList.addEventListener("click", (/** @type {any} */ event) =>
      this.followLesson(event),
    );
  }

  /** @param {boolean} isShown */
  async setShown(isShown) {
    this.isShown = isShown;
    if (!isShown) return this.halt();
    await this.load();
    if (this.isShown) this.land(false);
  }

  returned() {
    if (this.offer) this.land();
  }

  get address() {
    return { link: window.location.href, linkLimit: "", write() {} };
  }

  /** @param {string} parameter */
  owns(parameter) {
    return OF_A_LESSON.includes(parameter);
  }

  get actions() {
    if (!this.view || !this.isShown) return {};
    return {
      position: (/** @type {number} */ by) => this.canMove(by) && this.move(by),
      lead: (/** @type {number} */ by) => (by > 0 || this.canMove(by)) && this.move(by),
    };
  }

  get question() {
    return (this.isShown && this.view?.question) || null;
  }

  repaint() {
    this.view?.widget.repaint();
  }

  halt() {
    this.view?.widget.halt();
  }

  async load() {
    if (this.offer) return;
    const { learnError } = this.refs;
    try {
      const reply = await fetch(COURSE);
      if (!reply.ok) throw new Error(String(reply.status));
      const offer = await reply.json();
      this.offer = offer;
      this.course.recorded = offer.recorded;
      this.course.noEngine = offer.no_engine;
      learnError.hidden = true;
    } catch {
      learnError.hidden = false;
      setText(
        learnError,
        "The lessons could not be loaded. Open this page again to try once more.",
      );
    }
  }

  // Show the step of a lesson that the address names, or the list of lessons.
  land(isMoved = true) {
    if (!this.offer) return;
    const { lesson: name, step } = placeInAddress();
    const lesson = this.offer.lessons.find((each) => each.name === name);
    this.refs.learnList.hidden = lesson !== undefined;
    this.refs.lessonPage.hidden = lesson === undefined;
    if (!lesson) {
      this.halt();
      this.view = null;
      this.drawList();
      if (isMoved) this.focus(this.refs.learnTitle);
      return;
    }
    if (this.view?.lesson !== lesson) {
      this.course.drive.leave();
      this.view = this.viewOf(lesson);
    }
    const at = lesson.steps.findIndex((each) => each.name === step);
    this.view.show(Math.max(0, at));
    if (isMoved) this.focus(this.refs.lessonStepTitle);
  }

  // Focus the heading, so that the Tab key continues from it and a screen reader reads it aloud.
  /** @param {HTMLElement} heading */
  focus(heading) {
    window.scrollTo(0, 0);
    heading.focus({ preventScroll: true });
  }

  /** @param {LessonRecord} lesson */
  viewOf(lesson) {
    const kinds = this.offer?.widgets ?? [];
    const link = (/** @type {number} */ at) => linkTo(lesson.name, lesson.steps[at].name);
    return new LessonView(this.refs, lesson, kinds, this.course, {
      progress: this.progress,
      onward: this.onward(lesson),
      go: (at) => this.go(lesson.name, lesson.steps[at].name),
      link,
    });
  }

  // Return the next lesson of the same group, or undefined after the last one.
  /** @param {LessonRecord} lesson */
  after(lesson) {
    const group = this.offer?.lessons.filter((each) => each.group === lesson.group) ?? [];
    return group[group.indexOf(lesson) + 1];
  }

  // Return the label of the button on the last step.
  /** @param {LessonRecord} lesson */
  onward(lesson) {
    const next = this.after(lesson);
    if (next) return `Next: ${next.title} →`;
    return lesson.group === "core" ? "Further lessons" : "All lessons";
  }

  /**
   * @param {string | null} lesson
   * @param {string | null} [step]
   */
  go(lesson, step = null) {
    window.history.pushState(null, "", linkTo(lesson, step));
    this.land();
  }

  /** @param {number} by */
  canMove(by) {
    return !(by > 0 ? this.refs.lessonNext.disabled : this.refs.lessonPrevious.hidden);
  }

  /** @param {number} by */
  move(by) {
    if (!this.view) return;
    const { lesson, at } = this.view;
    const step = lesson.steps[at + by];
    if (step) return this.go(lesson.name, step.name);
    const next = this.after(lesson);
    this.go(next?.name ?? null, next?.steps[0].name);
    if (!next && lesson.group === "core") this.refs.lessonFurther.scrollIntoView();
  }

  /**
   * @param {any} event
   * @param {string | null} lesson
   * @param {string | null} [step]
   */
  follow(event, lesson, step = null) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.go(lesson, step);
  }

  /** @param {any} event */
  followStep(event) {
    const link = event.target.closest("a[data-step]");
    if (link && this.view) this.follow(event, this.view.lesson.name, link.dataset.step);
  }

  /** @param {any} event */
  followLesson(event) {
    const link = event.target.closest("a[data-lesson-name]");
    if (link) this.follow(event, link.dataset.lessonName, link.dataset.step);
  }

  drawList() {
    const lessons = this.offer?.lessons ?? [];
    const cards = (/** @type {string} */ group) =>
      lessons.filter((lesson) => lesson.group === group).map((lesson) => this.card(lesson));
    const {
      lessonCards,
      lessonExtras,
      lessonFurther,
      lessonExercises,
      lessonPractice,
      lessonMythCards,
      lessonMyths,
      lessonDone,
    } = this.refs;
    lessonCards.replaceChildren(...cards("core"));
    lessonExtras.replaceChildren(...cards("optional"));
    lessonExercises.replaceChildren(...cards("exercise"));
    lessonMythCards.replaceChildren(...cards("misconception"));
    lessonFurther.hidden = !lessonExtras.children.length;
    lessonPractice.hidden = !lessonExercises.children.length;
    lessonMyths.hidden = !lessonMythCards.children.length;
    const done = lessons.filter((lesson) => this.progress.of(lesson.name).done).length;
    const core = lessons.filter(({ group }) => group === "core");
    this.drawBeginning(core);
    const minutes = core.reduce((sum, lesson) => sum + lesson.minutes, 0);
    const whole = `${counted(core.length, "lesson")} in this order, about ${counted(minutes, "minute")} in all.`;
    setText(
      lessonDone,
      done
        ? `${whole} Of these and of all below, ${done} ${done === 1 ? "is" : "are"} done.`
        : whole,
    );
  }

  // Show the button that continues with the first lesson that is not done.
  /** @param {LessonRecord[]} lessons */
  drawBeginning(lessons) {
    const { lessonBegin } = this.refs;
    const at = lessons.findIndex(({ name }) => !this.progress.of(name).done);
    lessonBegin.hidden = at < 0;
    if (at < 0) return;
    const lesson = lessons[at];
    lessonBegin.href = linkTo(lesson.name, lesson.steps[0].name);
    lessonBegin.dataset.lessonName = lesson.name;
    lessonBegin.dataset.step = lesson.steps[0].name;
    setText(lessonBegin, at ? `Go on: ${lesson.title}` : "Begin with lesson 1");
  }

  /** @param {LessonRecord} lesson */
  card(lesson) {
    const { done } = this.progress.of(lesson.name);
    const item = element("li", done ? "card lesson-card is-done" : "card lesson-card");
    const link = element("a", "", lesson.title);
    link.href = linkTo(lesson.name, lesson.steps[0].name);
    link.dataset.lessonName = lesson.name;
    link.dataset.step = lesson.steps[0].name;
    const title = element("h3");
    title.append(link);
    const parts = lesson.steps.filter(({ part }) => part).length;
    const facts = element(
      "p",
      "hint",
      [
        counted(lesson.minutes, "minute"),
        ...(parts ? [counted(parts, "part")] : []),
        counted(lesson.steps.length, "step"),
        ...(done ? ["done"] : []),
      ].join(" · "),
    );
    const mark = MARKS[lesson.group] ?? String(lesson.number);
    item.append(
      element("span", "lesson-number", mark),
      title,
      element("p", "", lesson.question),
      facts,
    );
    if (done) item.append(element("p", "lesson-learned", lesson.learned));
    const notebook = notebookLink(lesson);
    if (notebook) item.append(notebook);
    return item;
  }
}
