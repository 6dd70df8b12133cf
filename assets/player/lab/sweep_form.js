// What a sweep varies, with which method and how often, and the errors beside the fields.
// Knows its own fields; what is measured, the lab's setting says. The server's own checks decide.

import { setText } from "../shared/dom.js";
import { FieldErrors } from "../shared/field_errors.js";
import { labelled, numberProblem, problemOf, settingNamed, settingOf } from "../shared/settings.js";
import { Menu } from "../shared/menu.js";
import { AxisField } from "./axis_field.js";
import { BatchFields } from "./batch_fields.js";
import { NarrowFold } from "./narrow_fold.js";

const NOTHING_ELSE = "nothing else";
const CUSTOM = "custom";
/** @type {Record<string, string>} */
const OTHER_NAMES = { repeat: "repeats" }; // what a rule calls a field

export class SweepForm {
  // `setting()`: what is measured.
  /**
   * @param {Refs} refs
   * @param {Setup} setup
   * @param {() => SettingForm} setting
   */
  constructor(refs, { pairs, methods, lab }, setting) {
    this.refs = refs;
    this.setting = setting;
    this.methods = methods;
    this.usual = lab.sweep.defaults;
    this.axes = lab.sweep.axes;
    this.repeats = lab.bounds.repeats;
    this.menu = new Menu(refs.labMethod);
    this.batch = new BatchFields(refs.labRepeats.closest(".field"), lab.sweep.batch);
    this.errors = new FieldErrors(refs.sweepForm, {}, () => this.checked);
    const names = { pair: pairs.filter(({ name }) => name !== CUSTOM), task: [], method: methods };
    const onChange = () => this.changed();
    const parts = [1, 2].map((at) => ({ menu: new Menu(refs[`axis${at}`], false), input: refs[`values${at}`], choices: refs[`choices${at}`] }));
    this.fields = [
      new AxisField(parts[0], this.axes, { names, onChange }),
      new AxisField(parts[1], this.axes, { names, none: NOTHING_ELSE, onChange }),
    ];
    this.offer({}, []);
    this.fold = new NarrowFold(refs.sweepForm, refs.sweepChange);
    refs.sweepForm.addEventListener("input", () => this.changed());
  }

  begin() {
    const { refs, usual } = this;
    refs.labLength.value = settingOf("draft_length").default;
    refs.labRepeats.value = String(usual.repeats);
    this.varyLength(settingOf("method").default);
  }

  // The menu of methods for the models; `refusals` says which they cannot do, and why. An axis has only
  // what they can do.
  /**
   * @param {Record<string, string>} refusals
   * @param {Choice[]} tasks
   */
  offer(refusals, tasks) {
    this.menu.fill(
      this.methods.map(({ name, title, summary, group }) => ({ name, title, group, note: summary, refusal: refusals[name] })),
    );
    const method = this.methods.filter(({ name }) => !refusals[name]);
    for (const field of this.fields) field.offer({ task: tasks, method });
  }

  // The first axis as at the beginning, and no other one.
  /** @param {string} method */
  varyLength(method) {
    const { refs, usual } = this;
    refs.labMethod.value = method;
    refs.axis1.value = usual.axis;
    refs.axis2.value = "";
    this.fields[0].take(usual.values);
    this.fields[1].take();
    this.changed();
  }

  // The axes that the method has, or each of those that are varied.
  offerAxes() {
    const varied = this.fields.flatMap((field) => field.variedMethods);
    const chosen = varied.length ? varied : this.methods.filter(({ name }) => name === this.refs.labMethod.value);
    for (const field of this.fields) field.offerAxes(chosen);
  }

  get chosenAxes() {
    return this.fields.flatMap((field) => field.axis ?? []);
  }

  // What is sent.
  get order() {
    const { labMethod, labLength, labRepeats } = this.refs;
    const { form, prompts } = this.setting().order;
    const own = { method: labMethod.value, draft_length: labLength.value };
    const axes = this.fields.map((field) => field.order).filter(Boolean);
    return { form: { ...form, ...own }, prompts, axes, repeats: labRepeats.value, batch: this.batch.order };
  }

  changed() {
    this.offerAxes();
    const varied = this.chosenAxes.map((axis) => axis.name);
    for (const field of this.refs.sweepForm.querySelectorAll("[data-axis]")) field.hidden = varied.includes(field.dataset.axis);
    this.batch.refresh(varied);
    this.clearErrors();
    this.drawSize();
  }

  drawSize() {
    setText(this.refs.sweepSize, this.sizeWords);
    setText(this.refs.sweepWords, this.words);
  }

  // The order in a line, for where the fields are folded away.
  get words() {
    const axes = this.fields.flatMap(({ axis, input }) => (axis ? `${axis.title} ${input.value}` : []));
    const method = this.methods.find(({ name }) => name === this.refs.labMethod.value);
    return [axes.join(" and "), method?.title, ...this.batch.words, `${this.refs.labRepeats.value} repeats`].join(" · ");
  }

  // The values as an address or a reload has put them into the fields.
  taken() {
    for (const field of this.fields) field.take(field.input.value);
    this.changed();
  }

  // How much there is to do, as far as the text says.
  get sizeWords() {
    const counts = this.fields.map((field) => field.count);
    const points = counts[0] * counts[1];
    const runs = 2 * points * (this.setting().count ?? NaN) * Number(this.refs.labRepeats.value);
    if (counts.includes(null) || !Number.isInteger(runs) || runs <= 0 || this.errors.wrong.length) return "";
    return `${points} ${points === 1 ? "point" : "points"}, ${runs} runs`;
  }

  // ---- errors

  // Whether it is plain that the server would say no.
  refuses() {
    if (this.errors.wrong.length) this.fold.open();
    return this.errors.refuses() || this.setting().refuses();
  }

  // A method or a length that is varied has a hidden field.
  get checked() {
    const { labLength, labRepeats } = this.refs;
    const varied = this.fields.map((field, at) => ({ name: `axis${at + 1}`, title: field.axis?.title, control: field.input, problem: (/** @type {string} */ text) => field.problem(text) }));
    const length = { name: "draft_length", control: labLength, problem: (/** @type {string} */ text) => problemOf(settingOf("draft_length"), text) };
    const repeats = { name: "repeats", control: labRepeats, problem: (/** @type {string} */ text) => numberProblem(this.repeats, text) };
    return [...varied, ...(labLength.closest(".field[hidden]") ? [] : [length]), ...this.batch.checked, repeats];
  }

  /** @param {string} text */
  showError(text) {
    this.clearErrors();
    const [said] = text.split(" ", 1);
    const name = OTHER_NAMES[said] ?? said;
    const at = this.fields.findIndex(({ axis }) => axis?.settings.includes(name));
    if (at >= 0) return this.show(`axis${at + 1}`, text.replace(said, this.fields[at].axis?.title ?? said));
    if (this.errors.lineOf(settingNamed(name)) || !this.setting().show(text)) this.show(settingNamed(name), labelled(text.replace(said, name)));
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  show(name, text) {
    const own = this.errors.lineOf(name);
    const line = own && !own.closest(".field[hidden]") ? own : this.errors.lastLine;
    this.fold.open();
    const field = line.closest(".field");
    const control = field?.querySelector("input:not([hidden])") ?? field?.querySelector("select");
    this.errors.show(line, text, control);
    this.errors.lead(line, control);
  }

  clearErrors() {
    this.errors.recheck();
  }
}
