// The form that all cards of the lab share: models, prompts and sampling. The browser checks only
// whether numbers are within their bounds; the server checks everything.

import { setText } from "../shared/dom.js";
import { FieldErrors } from "../shared/field_errors.js";
import { controlsOf } from "../shared/setting_fields.js";
import {
  defaults,
  labelled,
  numberProblem,
  problemFor,
  settingNamed,
  settingOf,
} from "../shared/settings.js";
import { Menu } from "../shared/menu.js";
import { PairFields } from "../shared/pair_fields.js";
import { NarrowFold } from "./narrow_fold.js";
import { OWN, OwnPrompts } from "./own_prompts.js";

export class SettingForm {
  // `heldOut` holds the held-out prompts of each pair of models. `ask(name, question)` asks the
  // server. `on` has the listeners { changed(), offer(refusals, tasks) }; `offer` is called with
  // the methods that the chosen pair refuses and the tasks that it has, as soon as the server has
  // reported them.
  /**
   * @param {Refs} refs
   * @param {Setup} setup
   * @param {HeldOut} heldOut
   * @param {(name: string, question: object) => Promise<Reply>} ask
   * @param {{ changed: () => void, offer: (refusals: Record<string, string>, tasks: Choice[]) => void }} on
   */
  constructor(refs, setup, heldOut, ask, on) {
    this.refs = refs;
    this.heldOut = heldOut;
    this.mostPrompts = setup.lab.bounds.prompts.high;
    this.on = on;
    this.tasks = setup.tasks;
    this.controls = controlsOf(refs.settingForm);
    this.errors = new FieldErrors(refs.settingForm, {}, () => this.checked);
    this.own = new OwnPrompts(refs, ask, () => this.changed());
    this.taskMenu = new Menu(refs.labTask, false);
    this.fill(setup);
    this.pairs = new PairFields(pairRefs(refs), setup, {
      ask: () => ask("check", { form: { ...this.form, method: refs.labMethod.value } }),
      onOffer: (refusals) => this.offer(refusals),
      onReport: () => this.changed(),
    });
    this.begin(setup);
    refs.settingForm.addEventListener("input", () => this.changed());
    refs.settingForm.addEventListener("submit", (/** @type {any} */ event) =>
      event.preventDefault(),
    );
    refs.labTask.addEventListener("change", () => this.sourceChanged());
    this.fold = new NarrowFold(refs.settingForm, refs.settingChange);
  }

  /** @param {Setup} setup */
  fill({ devices, dtypes }) {
    const { labDevice, labDtype } = this.refs;
    new Menu(labDevice).fill(devices);
    new Menu(labDtype).fill(dtypes);
    for (const [menu, choices] of [
      [labDevice, devices],
      [labDtype, dtypes],
    ])
      menu.closest(".field").hidden = choices.length < 2;
  }

  /** @param {Setup} setup */
  begin({ lab }) {
    /** @type {Record<string, any>} */
    const values = { ...defaults(), task: this.tasks[0].name, max_new_tokens: lab.setting.tokens };
    for (const [name, control] of Object.entries(this.controls))
      control.value = String(values[name] ?? "");
    this.usualCount = String(lab.setting.prompts);
    this.refs.labPrompts.value = this.usualCount;
    this.draw();
  }

  // Offer the tasks for which the chosen models have prompts, and pass the refused methods on to
  // the other cards.
  /** @param {Record<string, string>} refusals */
  offer(refusals) {
    const tasks = this.heldOut.tasks(this.tasks, this.pairs.pair);
    const held = tasks.map(({ name, title }) => ({ name, title: `${title} (held-out)` }));
    this.taskMenu.fill([...held, { name: OWN, title: "of your own …" }]);
    this.on.offer(refusals, tasks);
  }

  get isOwn() {
    return this.controls.task.value === OWN;
  }

  /** @returns {Record<string, string>} */
  get form() {
    const { target, draft, task, ...values } = Object.fromEntries(
      Object.entries(this.controls).map(([name, { value }]) => [name, value]),
    );
    /** @type {Record<string, string>} */
    const models = this.pairs.isCustom ? { target, draft } : {};
    return { ...values, ...models, ...(this.isOwn ? {} : { task }) };
  }

  get order() {
    const count = this.refs.labPrompts.value;
    return { form: this.form, prompts: this.isOwn ? { count, ...this.own.order } : { count } };
  }

  // The number of prompts, or null if it is unknown.
  get count() {
    const typed = this.refs.labPrompts.value.trim();
    if (this.isOwn && typed === "") return this.own.count;
    return /^\d+$/.test(typed) ? Number(typed) : null;
  }

  // React to a change between held-out prompts and the user's own prompts. Reset the number of
  // prompts: all prompts if they are the user's own, otherwise a few.
  sourceChanged() {
    this.refs.labPrompts.value = this.isOwn ? "" : this.usualCount;
    this.changed();
    if (this.isOwn) this.refs.ownText.focus();
  }

  changed() {
    this.clearErrors();
    this.draw();
    this.on.changed();
  }

  draw() {
    const { refs } = this;
    refs.ownPrompts.hidden = !this.isOwn;
    refs.labPrompts.placeholder = this.isOwn ? "all" : "";
    this.pairs.refresh();
    setText(refs.settingWords, this.words);
  }

  // The settings in one line, which is shown while the fields are folded.
  get words() {
    const { target, draft, task, temperature, max_new_tokens: tokens } = this.controls;
    const pair = this.pairs.isCustom
      ? [target.value || "?", draft.value].filter(Boolean).join(" and ")
      : this.pairs.pair?.title;
    const count = this.count ?? "?";
    const prompts = this.isOwn ? `${count} prompts of your own` : `${count} ${task.value} prompts`;
    return [pair, prompts, `temperature ${temperature.value}`, `${tokens.value} new tokens`].join(
      " · ",
    );
  }

  // Return whether the server would certainly refuse the settings.
  refuses() {
    if (this.errors.wrong.length) this.fold.open();
    return this.errors.refuses();
  }

  get checked() {
    const own = Object.entries(this.controls).map(([name, control]) => ({
      name,
      control,
      problem: (/** @type {string} */ text) => problemFor(settingOf(name), this.pairs.pair, text),
    }));
    return [
      ...own,
      {
        name: "prompts",
        control: this.refs.labPrompts,
        problem: (/** @type {string} */ text) => this.countProblem(text),
      },
    ];
  }

  // Return what is wrong with the number of prompts, or "" if nothing is.
  /** @param {string} text */
  countProblem(text) {
    if (this.isOwn && text.trim() === "") return "";
    const there = this.isOwn
      ? this.own.count
      : this.heldOut.of(this.pairs.pair)[this.controls.task.value]?.length;
    return numberProblem(
      { low: 1, high: Math.min(there ?? Infinity, this.mostPrompts), is_whole: true },
      text,
    );
  }

  // Show an error sentence of the server if it is about a field of this form. Return whether it is.
  /** @param {string} text */
  show(text) {
    const line = this.errors.lineOf(settingNamed(text));
    if (!line) return false;
    this.fold.open();
    const control = controlOf(line.closest(".field"), text);
    this.errors.show(line, labelled(text), control);
    this.errors.lead(line, control);
    return true;
  }

  clearErrors() {
    this.errors.recheck();
  }
}

// Return the control that an error sentence is about. A field may have several controls. Choose the
// control whose value the sentence quotes, otherwise the text area, otherwise the field's first
// control.
/**
 * @param {any} field
 * @param {string} text
 */
function controlOf(field, text) {
  const all = [...field.querySelectorAll("textarea, input[type=text], select")].filter(
    (each) => !each.closest("[hidden]"),
  );
  return (
    all.find(({ value }) => text.endsWith(`got '${value}'`)) ??
    all.find(({ type }) => type === "textarea") ??
    all[0]
  );
}

// Return the lab's elements, keyed by the names that the race page's form uses for its own
// elements.
/** @param {Refs} refs */
function pairRefs(refs) {
  return {
    pair: refs.labPair,
    target: refs.labTarget,
    draft: refs.labDraft,
    method: refs.labMethod,
    deviceChoice: refs.labDevice,
    dtype: refs.labDtype,
    custom: refs.labCustom,
    pairNote: refs.labPairNote,
    pairClaim: refs.labPairClaim,
    pairLimit: refs.labPairLimit,
    checkRow: refs.labCheckRow,
    checkPair: refs.labCheckPair,
    checkWord: refs.labCheckWord,
    pairReport: refs.labPairReport,
  };
}
