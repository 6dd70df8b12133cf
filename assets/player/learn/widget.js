// The base class of every widget in a lesson; widgets.js lists them. assets/lessons/widgets.toml
// lists what a lesson can ask of each widget, and docs/lesson.md explains how to add one.

export class Widget {
  // Each subclass sets `id` to its name in widgets.toml.
  static id = "";

  // `box` is the element that the widget fills. `course` has the fields that all lessons share:
  // setup, theme, gradio, recordings, recorded. The widget calls `on.changed()` when its values may
  // have changed, and `on.reached(goal)` when the learner has reached a goal.
  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    this.box = box;
    this.course = course;
    this.on = on;
  }

  // Begin a step: show everything as the step's scene describes, whatever the learner did before. A
  // widget that must load a recording for this returns a promise.
  /**
   * @param {Record<string, string>} _scene
   * @returns {Promise<void> | void}
   */
  set(_scene) {}

  // The learner has answered the step's question: show what the step's scene hid until then.
  reveal() {}

  // The values for the texts, keyed by their names in widgets.toml. A value is undefined if it is
  // not known yet.
  /** @returns {Record<string, any>} */
  get values() {
    return {};
  }

  // The values that decide questions, keyed by name. For each, `values` has the results that the
  // measurement allows; of a range it has the two ends. A value that is not in this map is exact. A
  // question is graded only if all allowed results give the same answer. Otherwise the page shows
  // the sentence `words`.
  /** @returns {Record<string, Possible>} */
  get possible() {
    return {};
  }

  // Called after a change of theme or text size.
  repaint() {}

  // Called on Escape and when the learner leaves the lesson. It stops everything that runs.
  halt() {}
}
