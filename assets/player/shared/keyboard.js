// The keys, their actions, and the list of keys that "?" opens. A key that the focused control
// needs, such as a letter in a text field, goes to that control.

import { element } from "./dom.js";

const NEEDS_SERVER = "needs a server"; // mark of the keys that a report lacks, because it has no server

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
  [
    "← →",
    "previous, next point of the sweep (Lab), step of a lesson (Learn), term (Glossary)",
    NEEDS_SERVER,
  ],
  ["/", "search the glossary", NEEDS_SERVER],
  [
    "Enter",
    "race (Shift Enter begins a new line in the prompt), or in the Lab sweep",
    NEEDS_SERVER,
  ],
  ["Esc", "stop the race, or what the Lab measures", NEEDS_SERVER],
  ["?", "this list"],
];

// For each key, a function that returns the name of its action and, if needed, an argument.
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
  // `actions()` returns the actions of the current page, keyed by name.
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

  // Run an action of the current page. If the page does not have the action, the browser handles
  // the key.
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

// Return whether Escape would close a dialog or menu. In that case it must not stop a race.
/** @param {any} event */
function isClosing({ target }) {
  return document.querySelector("dialog[open]") !== null || Boolean(target.closest?.("option"));
}

/** @param {any} event */
function isTyping({ target }) {
  return (
    target.closest?.("input:not([type=checkbox]), textarea, select, dialog, [role=radiogroup]") !==
    null
  );
}

/** @param {any} event */
function isPressing({ target, key }) {
  if (key === " ") return target.closest?.("button, summary, input") !== null; // Space does not activate a link
  return key === "Enter" && target.closest?.("button, a, summary, input") !== null;
}

// Return the list of keys. `isAlone` is true for a report, which contains only the debugger and has
// no server.
/** @param {{ isAlone?: boolean }} [page] */
export function keyRows({ isAlone = false } = {}) {
  const rows = KEYS.filter(([, , needsServer = false]) => !(isAlone && needsServer));
  return rows.flatMap(([key, meaning]) => [element("dt", "", key), element("dd", "", meaning)]);
}
