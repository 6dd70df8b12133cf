// The form of a sweep: what it varies, the method, and the number of repeats, with the errors next
// to the fields. The models and prompts are in the lab's other form (`SettingForm`). The server
// checks everything.

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
// Name of a field in the server's sentences -> its name in this form, if the two differ.
const OTHER_NAMES = { repeat: "repeats" };

export class SweepForm {
  // `setting()` returns the form with the models and prompts.
  /**
   * @param {Refs} refs
   * @param {Setup} setup
   * @param {() => SettingForm} setting
   */
  constructor(refs, { pairs, methods, length_policies, lab }, setting) {
    this.refs = refs;
    this.setting = setting;
    this.methods = methods;
    this.usual = lab.sweep.defaults;
    this.axes = lab.sweep.axes;
    this.repeats = lab.bounds.repeats;
    this.menu = new Menu(refs.labMethod);
    this.batch = new BatchFields(refs.labRepeats.closest(".field"), lab.sweep.batch);
    this.errors = new FieldErrors(refs.sweepForm, {}, () => this.checked);
    const names = {
      pair: pairs.filter(({ name }) => name !== CUSTOM),
      task: [],
      method: methods,
      "length-policy": length_policies,
    };
    const onChange = () => this.changed();
    const parts = [1, 2].map((at) => ({
      menu: new Menu(refs[`axis${at}`], false),
      input: refs[`values${at}`],
      choices: refs[`choices${at}`],
    }));
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

  // Offer the methods and tasks for the chosen models. `refusals` maps each method that they cannot
  // run to the reason. An axis that varies the method offers only methods that can run.
  /**
   * @param {Record<string, string>} refusals
   * @param {Choice[]} tasks
   */
  offer(refusals, tasks) {
    this.menu.fill(
      this.methods.map(({ name, title, summary, group }) => ({
        name,
        title,
        group,
        note: summary,
        refusal: refusals[name],
      })),
    );
    const method = this.methods.filter(({ name }) => !refusals[name]);
    for (const field of this.fields) field.offer({ task: tasks, method });
  }

  // Reset the first axis to its default and remove the second.
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

  // Offer the axes that the chosen method has. If the method itself is varied, offer the axes that
  // all varied methods have.
  offerAxes() {
    const varied = this.fields.flatMap((field) => field.variedMethods);
    const chosen = varied.length
      ? varied
      : this.methods.filter(({ name }) => name === this.refs.labMethod.value);
    for (const field of this.fields) field.offerAxes(chosen);
  }

  get chosenAxes() {
    return this.fields.flatMap((field) => field.axis ?? []);
  }

  // The request for the server.
  get order() {
    const { labMethod, labLength, labRepeats } = this.refs;
    const { form, prompts } = this.setting().order;
    const own = { method: labMethod.value, draft_length: labLength.value };
    const axes = this.fields.map((field) => field.order).filter(Boolean);
    return {
      form: { ...form, ...own },
      prompts,
      axes,
      repeats: labRepeats.value,
      batch: this.batch.order,
    };
  }

  changed() {
    this.offerAxes();
    const varied = this.chosenAxes.map((axis) => axis.name);
    for (const field of this.refs.sweepForm.querySelectorAll("[data-axis]"))
      field.hidden = varied.includes(field.dataset.axis);
    this.batch.refresh(varied);
    this.clearErrors();
    this.drawSize();
  }

  drawSize() {
    setText(this.refs.sweepSize, this.sizeWords);
    setText(this.refs.sweepWords, this.words);
  }

  // The sweep in one line, which is shown while the fields are folded.
  get words() {
    const axes = this.fields.flatMap(({ axis, input }) =>
      axis ? `${axis.title} ${input.value}` : [],
    );
    const method = this.methods.find(({ name }) => name === this.refs.labMethod.value);
    return [
      axes.join(" and "),
      method?.title,
      ...this.batch.words,
      `${this.refs.labRepeats.value} repeats`,
    ].join(" · ");
  }

  // React to new values of the fields, which come from an address or from before a reload.
  taken() {
    for (const field of this.fields) field.take(field.input.value);
    this.changed();
  }

  // The number of points and runs in words, or "" if the form is not valid.
  get sizeWords() {
    const counts = this.fields.map((field) => field.count);
    const points = counts[0] * counts[1];
    const runs = 2 * points * (this.setting().count ?? NaN) * Number(this.refs.labRepeats.value);
    if (counts.includes(null) || !Number.isInteger(runs) || runs <= 0 || this.errors.wrong.length)
      return "";
    return `${points} ${points === 1 ? "point" : "points"}, ${runs} runs`;
  }

  // Return whether the server would certainly refuse the sweep.
  refuses() {
    if (this.errors.wrong.length) this.fold.open();
    return this.errors.refuses() || this.setting().refuses();
  }

  // The fields that the browser can check. The draft length is left out if it is hidden because an
  // axis varies it.
  get checked() {
    const { labLength, labRepeats } = this.refs;
    const varied = this.fields.map((field, at) => ({
      name: `axis${at + 1}`,
      title: field.axis?.title,
      control: field.input,
      problem: (/** @type {string} */ text) => field.problem(text),
    }));
    const length = {
      name: "draft_length",
      control: labLength,
      problem: (/** @type {string} */ text) => problemOf(settingOf("draft_length"), text),
    };
    const repeats = {
      name: "repeats",
      control: labRepeats,
      problem: (/** @type {string} */ text) => numberProblem(this.repeats, text),
    };
    return [
      ...varied,
      ...(labLength.closest(".field[hidden]") ? [] : [length]),
      ...this.batch.checked,
      repeats,
    ];
  }

  /** @param {string} text */
  showError(text) {
    this.clearErrors();
    const [said] = text.split(" ", 1);
    const name = OTHER_NAMES[said] ?? said;
    const at = this.fields.findIndex(({ axis }) => axis?.settings.includes(name));
    if (at >= 0)
      return this.show(`axis${at + 1}`, text.replace(said, this.fields[at].axis?.title ?? said));
    if (this.errors.lineOf(settingNamed(name)) || !this.setting().show(text))
      this.show(settingNamed(name), labelled(text.replace(said, name)));
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
