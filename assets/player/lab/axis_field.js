// One axis of a sweep: what is varied, and the values, which are typed numbers or chosen names. The
// server sends the list of axes.

import { element } from "../shared/dom.js";
import { brief, got, numberProblem } from "../shared/settings.js";

const SPAN = /^(\d+)-(\d+)$/; // for example, 1-8 is every number from 1 to 8
const OF_METHOD = "of this method";
const FIRST_CHOSEN = 3; // number of values that are chosen at first on an axis of names, such as methods

export class AxisField {
  // `axes` are {name, title, usual, settings, bounds, methods}: `usual` are the default values,
  // `settings` the settings that the axis changes, `bounds` the bounds of a number, and `methods`
  // the methods that support the axis. `names` maps an axis of names to its choices, [{name,
  // title}].
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

  // Offer the axes that all chosen methods support. Axes that only some methods of the app support
  // are listed in a separate group. If the chosen methods do not support the current axis, the axis
  // stays in the menu, with the reason why it cannot be used.
  /** @param {Choice[]} chosen */
  offerAxes(chosen) {
    this.chosen = chosen;
    const { value } = this.select;
    const all = this.axes.map(({ name, title, methods }) => ({
      name,
      title,
      group: methods.length < this.methods.length ? OF_METHOD : "",
      refusal: this.lackProblem(name),
    }));
    const none = this.none ? [{ name: "", title: this.none }] : [];
    this.menu.fill([...none, ...all.filter(({ name, refusal }) => !refusal || name === value)]);
  }

  /** @param {string} name */
  lackProblem(name) {
    const axis = this.axes.find((each) => each.name === name);
    return axis ? lackProblem(axis, this.methods, this.chosen) : "";
  }

  // The chosen methods if this axis varies the method, otherwise none.
  get variedMethods() {
    if (this.axis?.name !== "method") return [];
    const words = this.input.value.split(",");
    return this.methods.filter(({ name }) => words.includes(name));
  }

  // Return why a name in the address is not a valid axis, or "" if the name is valid.
  /** @param {string} name */
  axisProblem(name) {
    const lack = this.lackProblem(name);
    if (lack) return `“${name}” ${lack}`;
    const names = this.axes.map((each) => each.name).filter((each) => !this.lackProblem(each));
    return names.includes(name) || (this.none && !name)
      ? ""
      : `must be one of ${names.join(", ")}, got “${brief(name)}”`;
  }

  get axis() {
    return this.axes.find(({ name }) => name === this.select.value) ?? null;
  }

  // This axis as the server expects it in the request: its name, and its values as text.
  get order() {
    return this.axis && { name: this.axis.name, values: this.input.value };
  }

  // The number of values, or null if the text is not valid.
  get count() {
    if (!this.axis) return 1;
    const words = this.input.value
      .split(",")
      .map((/** @type {string} */ word) => word.trim())
      .filter(Boolean);
    const counts = words.map((/** @type {string} */ word) => {
      const [, low, high] = SPAN.exec(word) ?? [null, 0, 0];
      return Number(high) - Number(low) + 1;
    });
    const sum = counts.reduce(
      (/** @type {number} */ total, /** @type {number} */ each) => total + each,
      0,
    );
    return sum > 0 && counts.every((/** @type {number} */ each) => each > 0) ? sum : null;
  }

  // Return what is wrong with the values, or "" if nothing is.
  /** @param {string} text */
  problem(text) {
    const { axis } = this;
    return axis
      ? this.lackProblem(axis.name) || valuesProblem(axis, this.names[axis.name], text)
      : "";
  }

  // Prepare the fields for the chosen axis. Without `values` it gets its default values.
  /** @param {string | null} [values] */
  take(values = null) {
    const { axis, listed } = this;
    this.input.hidden = !axis || Boolean(listed);
    this.choices.hidden = !listed;
    if (!axis) return;
    this.input.value = values ?? (listed ? firstOf(listed) : axis.usual);
    if (listed) this.choices.replaceChildren(...listed.map((each) => this.choice(each)));
  }

  // Replace the choices of those axes whose values are names. `names` maps each of these axes to
  // its new choices. Chosen names that still exist stay chosen.
  /** @param {Record<string, Choice[]>} names */
  offer(names) {
    const before = JSON.stringify(this.listed);
    this.names = { ...this.names, ...names };
    const { listed } = this;
    if (!listed || JSON.stringify(listed) === before) return;
    const there = this.input.value
      .split(",")
      .filter((/** @type {string} */ word) => listed.some(({ name }) => name === word));
    this.take(there.join(",") || firstOf(listed));
  }

  // The names that can be chosen, if the values of this axis are names; undefined if they are
  // numbers.
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

// Return why one of the chosen methods does not have an axis, or "" if all have it. The text is a
// clause that follows the title of the axis.
/**
 * @param {{ methods: string[] }} axis
 * @param {Choice[]} methods all methods of the app
 * @param {Choice[]} chosen
 */
export function lackProblem(axis, methods, chosen) {
  const lacking = chosen.find(({ name }) => !axis.methods.includes(name));
  const having = methods
    .filter(({ name }) => axis.methods.includes(name))
    .map(({ title }) => title);
  return lacking ? `is varied with ${having.join(", ")} alone, not with ${lacking.title}` : "";
}

// Return what is wrong with the values, as a clause that follows the title of the axis. `listed`
// are the choices of an axis of names, [{name}]. Only the server checks the number of values, and
// whether a method accepts the values of its own axis.
/**
 * @param {{ bounds: Bounds | null }} axis
 * @param {{ name: string }[] | undefined} listed
 * @param {string} text
 */
export function valuesProblem({ bounds }, listed, text) {
  const words = text
    .split(",")
    .map((word) => word.trim())
    .filter(Boolean);
  if (!words.length) return got("must have at least one value", text);
  if (listed) {
    const unknown = words.find((word) => !listed.some(({ name }) => name === word));
    return unknown === undefined
      ? ""
      : got(`must be names of ${listed.map(({ name }) => name).join(", ")}`, unknown);
  }
  const own = /** @type {Bounds} */ (bounds);
  const ends = words.flatMap((word) => (own.is_whole && SPAN.exec(word)?.slice(1)) || [word]);
  return ends.map((end) => numberProblem(own, end)).find(Boolean) ?? "";
}

/** @param {Choice[]} listed */
function firstOf(listed) {
  return listed
    .slice(0, FIRST_CHOSEN)
    .map(({ name }) => name)
    .join(",");
}
