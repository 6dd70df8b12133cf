// What every widget of a lesson is: an object of this shape, listed in widgets.js. What lessons may ask of
// it stands in assets/lessons/widgets.toml; docs/lesson.md tells how to make one.

export class Widget {
  // Of the subclass: its name in widgets.toml.
  static id = "";

  // `box` is the element that it fills. `course` has what lessons share: setup, theme, gradio, recordings, recorded.
  // `on.changed()` is to be called when values may have changed, `on.reached(goal)` when a goal was.
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

  // A step begins: everything as its scene says, whatever was done before. May wait for a recording.
  /**
   * @param {Record<string, string>} _scene
   * @returns {Promise<void> | void}
   */
  set(_scene) {}

  // Whatever the scene hides until an answer was given.
  reveal() {}

  // By the names of widgets.toml; undefined for what is not known yet.
  /** @returns {Record<string, any>} */
  get values() {
    return {};
  }

  // Another theme, or another size of type.
  repaint() {}

  // Escape, or the lesson was left: end whatever runs.
  halt() {}
}
