// Keys and what they do; also the list behind "?".
// Knows actions by name only. Keys that a focused control needs itself are left to it.

import { element } from "./dom.js";

export const KEYS = [
  ["← →", "previous, next position in the round"],
  ["Shift ← →", "previous, next round"],
  ["Home End", "first, last round"],
  ["Space", "play, pause"],
  ["F", "follow the newest round"],
  ["Enter", "race (Ctrl Enter inside the prompt)"],
  ["Esc", "stop the race"],
  ["?", "this list"],
];

const ACTIONS = {
  ArrowLeft: (act, event) => (event.shiftKey ? act.round(-1) : act.stop(-1)),
  ArrowRight: (act, event) => (event.shiftKey ? act.round(1) : act.stop(1)),
  Home: (act) => act.first(),
  End: (act) => act.last(),
  " ": (act) => act.play(),
  f: (act) => act.follow(),
  Enter: (act) => act.race(),
  "?": (act) => act.list(),
};

export class Keyboard {
  constructor(actions, isAlive) {
    this.actions = actions;
    this.isAlive = isAlive;
    this.listener = (event) => this.press(event);
    document.addEventListener("keydown", this.listener);
  }

  press(event) {
    if (!this.isAlive()) return document.removeEventListener("keydown", this.listener);
    if (event.defaultPrevented || event.altKey) return;
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) return this.run(event, this.actions.race);
    if (event.ctrlKey || event.metaKey) return;
    if (event.key === "Escape") return void (isClosing(event) || this.actions.halt());
    if (isTyping(event) || isPressing(event)) return;
    const action = ACTIONS[event.key];
    if (action) this.run(event, () => action(this.actions, event));
  }

  run(event, action) {
    event.preventDefault();
    action();
  }
}

// Escape closes an open dialog or menu before it stops a race.
function isClosing({ target }) {
  return document.querySelector("dialog[open]") !== null || Boolean(target.closest?.("option"));
}

function isTyping({ target }) {
  return target.closest?.("input, textarea, select, dialog, [role=radiogroup]") !== null;
}

function isPressing({ target, key }) {
  return (key === " " || key === "Enter") && target.closest?.("button, a, summary") !== null;
}

export function keyRows() {
  return KEYS.flatMap(([key, meaning]) => [element("dt", "", key), element("dd", "", meaning)]);
}
