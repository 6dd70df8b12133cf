// Keys and what they do; also the list behind "?". Keys that a focused control needs itself are left to
// it.

import { element } from "./dom.js";

const NEEDS_SERVER = "needs a server"; // so a report has no such key

export const KEYS = [
  ["← →", "previous, next position in the round; in Step through, moment"],
  ["Shift ← →", "previous, next round"],
  ["↑ ↓", "previous, next phase of the round (Step through)"],
  ["N, Shift N", "next, previous match of what to jump to (Step through)"],
  ["G", "go to a place on the axis (Step through)"],
  ["R", "redraw this position 1,000 times"],
  ["Home End", "first, last round"],
  ["Space", "play, pause"],
  ["F", "follow the newest round"],
  ["← →", "previous, next point of the sweep (Lab), step of a lesson (Learn), term (Glossary)", NEEDS_SERVER],
  ["/", "search the glossary", NEEDS_SERVER],
  ["Enter", "race, or in the Lab sweep (Ctrl Enter inside the prompt)", NEEDS_SERVER],
  ["Esc", "stop the race, or what the Lab measures", NEEDS_SERVER],
  ["?", "this list"],
];

// key -> name of the action, and its argument
/** @type {Record<string, (event: KeyboardEvent) => [string, number?]>} */
const ACTIONS = {
  ArrowLeft: (event) => [event.shiftKey ? "round" : "position", -1],
  ArrowRight: (event) => [event.shiftKey ? "round" : "position", 1],
  ArrowUp: () => ["phase", -1],
  ArrowDown: () => ["phase", 1],
  n: () => ["match", 1],
  N: () => ["match", -1],
  g: () => ["goTo"],
  r: () => ["redraw"],
  Home: () => ["first"],
  End: () => ["last"],
  " ": () => ["play"],
  f: () => ["follow"],
  Enter: () => ["start"],
  "/": () => ["search"],
  "?": () => ["list"],
};

export class Keyboard {
  // `actions()`: those of the page that is shown, by name.
  /**
   * @param {() => Actions} actions
   * @param {() => boolean} isAlive
   */
  constructor(actions, isAlive) {
    this.ask = actions;
    this.isAlive = isAlive;
    this.listener = (/** @type {KeyboardEvent} */ event) => this.press(event);
    document.addEventListener("keydown", this.listener);
  }

  get actions() {
    return this.ask();
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    if (!this.isAlive()) return document.removeEventListener("keydown", this.listener);
    if (event.defaultPrevented || event.altKey) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return this.run(event, "start");
    if (event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") return void (isClosing(event) || this.actions.halt?.());
    if (isTyping(event) || isPressing(event)) return;
    const named = ACTIONS[event.key]?.(event);
    if (named) this.run(event, ...named);
  }

  // A key without an action on this page is left to the browser.
  /**
   * @param {KeyboardEvent} event
   * @param {string} name
   * @param {number} [argument]
   */
  run(event, name, argument) {
    const action = this.actions[name];
    if (!action) return;
    event.preventDefault();
    action(argument);
  }
}

// Escape closes an open dialog or menu before it stops a race.
/** @param {any} event */
function isClosing({ target }) {
  return document.querySelector("dialog[open]") !== null || Boolean(target.closest?.("option"));
}

/** @param {any} event */
function isTyping({ target }) {
  return target.closest?.("input:not([type=checkbox]), textarea, select, dialog, [role=radiogroup]") !== null;
}

/** @param {any} event */
function isPressing({ target, key }) {
  if (key === " ") return target.closest?.("button, summary, input") !== null; // it presses no link
  return key === "Enter" && target.closest?.("button, a, summary, input") !== null;
}

// `isAlone`: the debugger of a report, without a server.
/** @param {{ isAlone?: boolean }} [page] */
export function keyRows({ isAlone = false } = {}) {
  const rows = KEYS.filter(([, , needsServer = false]) => !(isAlone && needsServer));
  return rows.flatMap(([key, meaning]) => [element("dt", "", key), element("dd", "", meaning)]);
}
