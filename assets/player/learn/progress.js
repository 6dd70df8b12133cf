// The finished lessons and the predictions. They are stored only in this browser.

import { browser } from "../shared/kept.js";

const NAME = "course";

/** @typedef {{ answers: Record<string, string>, reached: string[], done: boolean }} LessonProgress */

export class Progress {
  constructor() {
    /** @type {Record<string, LessonProgress>} */
    this.lessons = browser.recall(NAME, isSound) ?? {};
  }

  /** @param {string} lesson */
  of(lesson) {
    return this.lessons[lesson] ?? { answers: {}, reached: [], done: false };
  }

  /**
   * @param {string} lesson
   * @param {Partial<LessonProgress>} changes
   */
  set(lesson, changes) {
    this.lessons = { ...this.lessons, [lesson]: { ...this.of(lesson), ...changes } };
    browser.keep(NAME, this.lessons);
  }

  /**
   * @param {string} lesson
   * @param {string} step
   * @param {string} option
   */
  answer(lesson, step, option) {
    this.set(lesson, { answers: { ...this.of(lesson).answers, [step]: option } });
  }

  // Record that the learner reached a goal. A reached goal is never removed.
  /**
   * @param {string} lesson
   * @param {string} step
   */
  reach(lesson, step) {
    const { reached } = this.of(lesson);
    if (!reached.includes(step)) this.set(lesson, { reached: [...reached, step] });
  }
}

/** @param {any} value */
function isSound(value) {
  const isLesson = (/** @type {any} */ each) =>
    each && typeof each.answers === "object" && Array.isArray(each.reached);
  return value !== null && typeof value === "object" && Object.values(value).every(isLesson);
}
