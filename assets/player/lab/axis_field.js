// One axis of a sweep: what is varied, and its values, typed as numbers or chosen as names.
// Knows the axes as the server lists them.

import { element } from "../shared/dom.js";
import { brief, got, numberProblem } from "../shared/settings.js";

const SPAN = /^(\d+)-(\d+)$/; // 1-8 is every number from 1 to 8
const OF_METHOD = "of this method";
const FIRST_CHOSEN = 3; // names that are on where an axis of names is first taken

export class AxisField {
  // `axes`: {name, title, usual, settings, bounds of a number, methods that have it}; `names`: axis -> [{name, title}] of those that take names.
  /**
   * @param {{ menu: import("../shared/menu.js").Menu, input: any, choices: any }} parts
   * @param {SweepAxis[]} axes
   * @param {{ names: Record<string, Choice[]>, none?: string, onChange: () => void }} given
   */
  constructor({ menu, input, choices }, axes, { names, none = "", onChange }) {
    this.menu = menu;
    this.select = menu.select;
    this.input = input;
    this.choices = choices;
    this.axes = axes;
    this.names = names;
    this.none = none;
    this.onChange = onChange;
    /** @type {Choice[]} */
    this.methods = names.method;
    /** @type {Choice[]} */
    this.chosen = [];
    this.offerAxes(names.method);
    this.select.addEventListener("change", () => (this.take(), onChange()));
    choices.addEventListener("click", (/** @type {any} */ event) => this.turn(event));
  }

  // The axes that all the chosen methods have, those that some methods have in a group of their own. One that is
  // chosen and that they lack stays in the menu, out of reach.
  /** @param {Choice[]} chosen */
  offerAxes(chosen) {
    this.chosen = chosen;
    const { value } = this.select;
    const all = this.axes.map(({ name, title, methods }) => ({ name, title, group: methods.length < this.methods.length ? OF_METHOD : "", refusal: this.lackProblem(name) }));
    const none = this.none ? [{ name: "", title: this.none }] : [];
    this.menu.fill([...none, ...all.filter(({ name, refusal }) => !refusal || name === value)]);
  }

  /** @param {string} name */
  lackProblem(name) {
    const axis = this.axes.find((each) => each.name === name);
    return axis ? lackProblem(axis, this.methods, this.chosen) : "";
  }

  // The methods that are varied, where these are what it varies.
  get variedMethods() {
    if (this.axis?.name !== "method") return [];
    const words = this.input.value.split(",");
    return this.methods.filter(({ name }) => words.includes(name));
  }

  // Why a name in an address is no axis, "" where it is one.
  /** @param {string} name */
  axisProblem(name) {
    const lack = this.lackProblem(name);
    if (lack) return `“${name}” ${lack}`;
    const names = this.axes.map((each) => each.name).filter((each) => !this.lackProblem(each));
    return names.includes(name) || (this.none && !name) ? "" : `must be one of ${names.join(", ")}, got “${brief(name)}”`;
  }

  get axis() {
    return this.axes.find(({ name }) => name === this.select.value) ?? null;
  }

  // What is sent: its name, and its values as they are typed.
  get order() {
    return this.axis && { name: this.axis.name, values: this.input.value };
  }

  // How many values there will be, null where the text does not say.
  get count() {
    if (!this.axis) return 1;
    const words = this.input.value.split(",").map((/** @type {string} */ word) => word.trim()).filter(Boolean);
    const counts = words.map((/** @type {string} */ word) => {
      const [, low, high] = SPAN.exec(word) ?? [null, 0, 0];
      return Number(high) - Number(low) + 1;
    });
    const sum = counts.reduce((/** @type {number} */ total, /** @type {number} */ each) => total + each, 0);
    return sum > 0 && counts.every((/** @type {number} */ each) => each > 0) ? sum : null;
  }

  // What is wrong with values, "" for nothing.
  /** @param {string} text */
  problem(text) {
    const { axis } = this;
    return axis ? this.lackProblem(axis.name) || valuesProblem(axis, this.names[axis.name], text) : "";
  }

  // Another axis was chosen: its usual values.
  /** @param {string | null} [values] */
  take(values = null) {
    const { axis, listed } = this;
    this.input.hidden = !axis || Boolean(listed);
    this.choices.hidden = !listed;
    if (!axis) return;
    this.input.value = values ?? (listed ? firstOf(listed) : axis.usual);
    if (listed) this.choices.replaceChildren(...listed.map((each) => this.choice(each)));
  }

  // Other names for some axes; of those chosen, what is still there remains.
  /** @param {Record<string, Choice[]>} names */
  offer(names) {
    const before = JSON.stringify(this.listed);
    this.names = { ...this.names, ...names };
    const { listed } = this;
    if (!listed || JSON.stringify(listed) === before) return;
    const there = this.input.value.split(",").filter((/** @type {string} */ word) => listed.some(({ name }) => name === word));
    this.take(there.join(",") || firstOf(listed));
  }

  // The names of an axis that takes names.
  get listed() {
    return this.axis && this.names[this.axis.name];
  }

  /** @param {Choice} named */
  choice({ name, title }) {
    const made = element("button", "chip", title);
    made.type = "button";
    made.dataset.name = name;
    made.setAttribute("aria-pressed", String(this.input.value.split(",").includes(name)));
    return made;
  }

  /** @param {any} event */
  turn(event) {
    const button = event.target.closest("[data-name]");
    if (!button) return;
    button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
    const chosen = this.choices.querySelectorAll("[aria-pressed=true]");
    this.input.value = [...chosen].map(({ dataset }) => dataset.name).join(",");
    this.onChange();
  }
}

// Why an axis is none of the chosen methods, as a clause behind its title or name; "" where it is one.
/**
 * @param {{ methods: string[] }} axis
 * @param {Choice[]} methods all that there are
 * @param {Choice[]} chosen
 */
export function lackProblem(axis, methods, chosen) {
  const lacking = chosen.find(({ name }) => !axis.methods.includes(name));
  const having = methods.filter(({ name }) => axis.methods.includes(name)).map(({ title }) => title);
  return lacking ? `is varied with ${having.join(", ")} alone, not with ${lacking.title}` : "";
}

// As a clause behind the axis's title. `listed`: [{name}] of an axis of names. Whether there are too many, and
// whether a method takes its own, the server says.
/**
 * @param {{ bounds: Bounds | null }} axis
 * @param {{ name: string }[] | undefined} listed
 * @param {string} text
 */
export function valuesProblem({ bounds }, listed, text) {
  const words = text.split(",").map((word) => word.trim()).filter(Boolean);
  if (!words.length) return got("must have at least one value", text);
  if (listed) {
    const unknown = words.find((word) => !listed.some(({ name }) => name === word));
    return unknown === undefined ? "" : got(`must be names of ${listed.map(({ name }) => name).join(", ")}`, unknown);
  }
  const own = /** @type {Bounds} */ (bounds);
  const ends = words.flatMap((word) => (own.is_whole && SPAN.exec(word)?.slice(1)) || [word]);
  return ends.map((end) => numberProblem(own, end)).find(Boolean) ?? "";
}

/** @param {Choice[]} listed */
function firstOf(listed) {
  return listed.slice(0, FIRST_CHOSEN).map(({ name }) => name).join(",");
}
