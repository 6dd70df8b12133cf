// A widget that runs a real serving engine once and shows the results as tables. Each step of the
// lesson shows another table. If the server cannot start an engine, the widget has only the
// recording and explains how to measure.

import { body, bodyRow, headRow } from "../lab/cells.js";
import { element, setText } from "../shared/dom.js";
import { OrderWidget } from "./order_widget.js";

/** @typedef {{ head: string[], rows: string[][], words?: string }} MeasuredTable */

/** @type {Record<string, string>} */
const LIVE = {
  public:
    "This page is public and starts no engine: run specviz on a machine of your own to measure it there.",
  missing:
    'To measure it here, install llama.cpp, pip install "specviz[llama-cpp]", and start specviz again.',
};

export class MeasuredTables extends OrderWidget {
  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   * @param {string} what
   */
  constructor(box, course, on, what) {
    super(box, course, on, what);
    this.table = element("table", "points");
    this.scroller = element("div", "scroller");
    this.scroller.tabIndex = 0;
    this.scroller.role = "group";
    this.scroller.append(this.table);
    this.words = element("p", "forward-words");
    this.row.go.hidden = course.noEngine !== "";
    this.live = element("p", "hint", LIVE[course.noEngine] ?? "");
    box.classList.add("measured-race");
    box.replaceChildren(this.scroller, this.words, this.row.box, this.live);
  }

  // Return the name of the recording that a step shows, and the request that makes the server
  // measure the same values.
  /**
   * @param {Record<string, string>} _scene
   * @returns {{ name: string, question: object }}
   */
  order(_scene) {
    return { name: this.what, question: {} };
  }

  // Return the named values that the texts of the lesson show, computed from the server's message.
  /**
   * @param {any} _found
   * @returns {Record<string, any>}
   */
  numbers(_found) {
    return {};
  }

  // Return the results that the noise of the measurement allows, for each value that decides a
  // question.
  /**
   * @param {any} _found
   * @returns {Record<string, Possible>}
   */
  allowed(_found) {
    return {};
  }

  get possible() {
    return this.found ? this.allowed(this.found) : {};
  }

  // Return the table that a step shows, made from the server's message `_found`. `_show` is the
  // step's name for the table.
  /**
   * @param {string} _show
   * @param {any} _found
   * @returns {MeasuredTable}
   */
  tableOf(_show, _found) {
    return { head: [], rows: [] };
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    const { name, question } = this.order(scene);
    this.setOrder(name, question, scene.known === "true");
    this.setHidden(scene.hidden === "true");
    if (this.found && scene.hidden !== "true") this.on.reached("shown");
  }

  reveal() {
    this.scene = { ...this.scene, hidden: "false" };
    this.showFound();
    this.setHidden(false);
    this.on.changed();
  }

  // The values for the texts. Before a measurement, only the values are known that do not depend on
  // the measurement.
  get values() {
    const { found, planned } = this;
    if (found) return this.numbers(found);
    if (!planned) return {};
    const known = this.numbers(planned);
    return Object.fromEntries(
      Object.keys(known).map((name) => [name, ASKED.includes(name) ? known[name] : undefined]),
    );
  }

  /** @param {boolean} isHidden */
  setHidden(isHidden) {
    this.row.box.hidden = isHidden;
    this.live.hidden = isHidden || this.live.textContent === "";
    this.draw();
  }

  draw() {
    const { found, scene } = this;
    const isShown = found !== null && scene.hidden !== "true";
    this.scroller.hidden = !isShown;
    setText(this.words, isShown ? "" : "Nothing is measured yet.");
    if (!isShown) return;
    const { head, rows, words = "" } = this.tableOf(scene.show, found);
    this.scroller.ariaLabel = head.filter(Boolean).join(", ");
    this.table.replaceChildren(headRow(head), body(rows.map((row) => bodyRow(row))));
    setText(this.words, words);
  }
}

// The values that are known before a measurement, because they do not depend on the machine.
const ASKED = [
  "model",
  "K",
  "look",
  "texts",
  "prompts",
  "most",
  "f16_size",
  "q4_size",
  "size_ratio",
];
