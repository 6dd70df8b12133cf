// What a sweep is asked to do, as a person edits it, and the errors beside the fields.
// Knows the fields; the server's own checks decide, but for numbers that are plainly out of bounds.

import { setText } from "../dom.js";
import { numberBreach } from "../field_rule.js";
import { labelled } from "../labels.js";
import { Menu } from "../menu.js";
import { AxisField } from "./axis_field.js";

// setting of the server -> data-ref of its control
const CONTROLS = {
  pair: "labPair",
  task: "labTask",
  method: "labMethod",
  draft_length: "labLength",
  temperature: "labTemperature",
  max_new_tokens: "labTokens",
};
const COUNTS = { prompts: "labPrompts", repeats: "labRepeats" };
const NOTHING_ELSE = "nothing else";
const CUSTOM = "custom";
const OTHER_NAMES = { repeat: "repeats" }; // what a rule calls a field

export class SweepForm {
  constructor(refs, { pairs, methods, tasks, defaults, bounds, lab }) {
    Object.assign(this, { refs, bounds, axes: lab.sweep.axes });
    const known = pairs.filter(({ name }) => name !== CUSTOM);
    new Menu(refs.labPair).fill(known.map(({ name, title, note }) => ({ name, title, note })));
    new Menu(refs.labTask).fill(tasks);
    new Menu(refs.labMethod).fill(methods.map(({ name, title, summary, group }) => ({ name, title, group, note: summary })));
    const names = { pair: known, task: tasks, method: methods };
    const onChange = () => this.changed();
    const parts = [1, 2].map((at) => ({ select: refs[`axis${at}`], input: refs[`values${at}`], choices: refs[`choices${at}`] }));
    this.fields = [
      new AxisField(parts[0], this.axes, { names, onChange }),
      new AxisField(parts[1], this.axes, { names, none: NOTHING_ELSE, onChange }),
    ];
    this.begin(defaults, lab.sweep.defaults);
    refs.sweepForm.addEventListener("input", () => this.changed());
  }

  begin(defaults, sweep) {
    const { refs } = this;
    this.usual = sweep;
    for (const [name, ref] of Object.entries(CONTROLS)) if (name in defaults) refs[ref].value = String(defaults[name]);
    refs.labTokens.value = String(sweep.tokens);
    for (const [name, ref] of Object.entries(COUNTS)) refs[ref].value = String(sweep[name]);
    this.varyLength(defaults.method);
  }

  // The first axis as at the beginning, and no other one.
  varyLength(method) {
    const { refs, usual } = this;
    refs.labMethod.value = method;
    refs.axis1.value = usual.axis;
    refs.axis2.value = "";
    this.fields[0].take(usual.values);
    this.fields[1].take();
    this.changed();
  }

  get chosenAxes() {
    return this.fields.map((field) => field.axis).filter(Boolean);
  }

  // What is sent.
  get order() {
    const { refs } = this;
    const form = Object.fromEntries(Object.entries(CONTROLS).map(([name, ref]) => [name, refs[ref].value]));
    const counts = Object.fromEntries(Object.entries(COUNTS).map(([name, ref]) => [name, refs[ref].value]));
    return { form, axes: this.fields.map((field) => field.order).filter(Boolean), ...counts };
  }

  changed() {
    this.clearErrors();
    const varied = this.chosenAxes.map(({ name }) => name);
    for (const field of this.refs.sweepForm.querySelectorAll("[data-axis]")) field.hidden = varied.includes(field.dataset.axis);
    setText(this.refs.sweepSize, this.sizeWords);
  }

  // How much there is to do, as far as the text says.
  get sizeWords() {
    const counts = this.fields.map((field) => field.count);
    const { labPrompts, labRepeats } = this.refs;
    const [prompts, repeats] = [labPrompts, labRepeats].map(({ value }) => Number(value));
    const points = counts[0] * counts[1];
    const runs = 2 * points * prompts * repeats;
    if (counts.includes(null) || !Number.isInteger(runs) || runs <= 0) return "";
    return `${points} ${points === 1 ? "point" : "points"}, ${runs} runs`;
  }

  // ---- errors

  // Whether it is plain that the server would say no.
  refuses() {
    for (const [name, ref] of Object.entries(CONTROLS)) {
      const control = this.refs[ref];
      const breach = this.bounds[name] && !control.closest("[hidden]") ? numberBreach(this.bounds[name], control.value) : "";
      if (breach) return this.show(name, labelled(`${name} ${breach}`)), true;
    }
    return false;
  }

  showError(text) {
    this.clearErrors();
    const [said] = text.split(" ", 1);
    const name = OTHER_NAMES[said] ?? said;
    const at = this.fields.findIndex(({ axis }) => axis?.settings.includes(name));
    if (at < 0) return this.show(name, labelled(text.replace(said, name)));
    this.show(`axis${at + 1}`, text.replace(said, this.fields[at].axis.title));
  }

  show(name, text) {
    const slots = [...this.refs.sweepForm.querySelectorAll("[data-slot]")];
    const named = slots.find(({ dataset }) => dataset.slot === name && name !== "");
    const slot = named && !named.closest("[data-field][hidden]") ? named : slots.at(-1);
    setText(slot, text);
    slot.hidden = false;
    const field = slot.closest("[data-field]");
    field?.classList.add("is-wrong");
    const control = field?.querySelector("input:not([hidden])") ?? field?.querySelector("select");
    control?.setAttribute("aria-invalid", "true");
    control?.focus({ preventScroll: true });
    slot.scrollIntoView({ block: "nearest" });
  }

  clearErrors() {
    const { sweepForm } = this.refs;
    for (const each of sweepForm.querySelectorAll(".error")) each.hidden = true;
    for (const each of sweepForm.querySelectorAll(".is-wrong")) each.classList.remove("is-wrong");
    for (const each of sweepForm.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
  }
}
