// The settings as a person edits them, and the errors beside them.
// Knows the fields and what the server offers. Numbers out of their bounds are told at once; whatever
// else is wrong the server names.

import { FieldChecks } from "./field_checks.js";
import { numberBreach } from "../shared/field_rule.js";
import { setText } from "../shared/dom.js";
import { labelled, settingNamed } from "../shared/labels.js";
import { Menu } from "../shared/menu.js";
import { MethodFields } from "./method_fields.js";
import { PairFields } from "../shared/pair_fields.js";
import { PromptPicker } from "./prompt_picker.js";
import { Slider } from "./slider.js";

// field of the server -> data-ref of its control
const CONTROLS = {
  pair: "pair",
  target: "target",
  draft: "draft",
  method: "method",
  draft_length: "draftLength",
  branching: "branching",
  tree_kind: "treeKind",
  temperature: "temperature",
  top_k: "topK",
  top_p: "topP",
  seed: "seed",
  max_new_tokens: "maxNewTokens",
  device: "deviceChoice",
  dtype: "dtype",
};

export class Form {
  // `ask(form)` asks the server about the models that the form names.
  constructor(refs, setup, prompts, { onChange, ask }) {
    this.refs = refs;
    this.setup = setup;
    this.onChange = () => (this.refresh(), onChange());
    this.methodPart = new MethodFields(refs, setup);
    this.pairPart = new PairFields(refs, setup, {
      ask: () => ask(this.order),
      onOffer: (refusals) => this.methodPart.offer(refusals),
      onReport: () => this.onChange(),
    });
    this.checks = new FieldChecks(refs.form, () => this.checked);
    this.fillMenus();
    this.sliders = ["draft_length", "temperature", "max_new_tokens"].map(
      (name) => new Slider(refs[CONTROLS[name]], setup.bounds[name]),
    );
    this.picker = new PromptPicker(refs, setup.tasks, prompts, () => this.onChange());
    this.fields = { ...setup.defaults };
    refs.method.addEventListener("change", () => {
      this.onChange();
      this.methodPart.reveal();
    });
    refs.form.addEventListener("input", (event) => {
      if (event.target !== refs.prompt) this.onChange();
    });
  }

  fillMenus() {
    const { devices, dtypes } = this.setup;
    new Menu(this.refs.deviceChoice).fill(devices);
    new Menu(this.refs.dtype).fill(dtypes);
    this.refs.deviceChoice.closest(".field").hidden = devices.length < 2;
    this.refs.dtype.closest(".field").hidden = dtypes.length < 2;
  }

  get method() {
    return this.methodPart.method;
  }

  get pair() {
    return this.pairPart.pair;
  }

  // The fields with a rule: name, control, and what is wrong with a text, "" for nothing.
  get checked() {
    const bounded = Object.entries(this.setup.bounds).map(([name, bounds]) => {
      return { name, control: this.refs[CONTROLS[name]], breach: (text) => numberBreach(bounds, text) };
    });
    return [...bounded, ...this.methodPart.checked];
  }

  // Why the chosen method cannot run on the chosen models, "" where it can.
  get refusal() {
    return this.methodPart.refusal;
  }

  // Whether it is plain that the server would say no; then the first such field has the focus.
  refuses() {
    if (this.refusal) return this.refs.method.focus(), true;
    return this.checks.focusFirst();
  }

  // All settings as text, under the server's names (prompt, task and the method's options apart).
  get fields() {
    const entries = Object.entries(CONTROLS).map(([name, ref]) => [name, this.refs[ref].value]);
    return Object.fromEntries(entries);
  }

  // The method goes first: it says which rules and options there are.
  set fields({ method, ...values }) {
    if (method !== undefined) this.refs.method.value = method;
    this.methodPart.methodChanged();
    for (const [name, value] of Object.entries(values)) {
      if (name in CONTROLS) this.refs[CONTROLS[name]].value = String(value);
    }
    for (const slider of this.sliders) slider.follow();
    this.refresh();
  }

  // What is sent: settings that do not apply are left out.
  get order() {
    const { target, draft, branching, tree_kind, ...order } = this.fields;
    if (this.pairPart.isCustom) Object.assign(order, { target, draft });
    Object.assign(order, this.methodPart.order);
    return { ...order, prompt: this.picker.text, task: this.picker.task || null };
  }

  // The setting in a few words, for a line about it.
  get words() {
    const { draft_length, temperature, max_new_tokens, seed } = this.fields;
    const task = this.setup.tasks.find((each) => each.name === this.picker.task)?.title ?? "free text";
    const place = this.picker.isHeldOut ? ` ${this.picker.place + 1}` : "";
    const shape = [this.method?.title ?? "", `K ${draft_length}`, ...this.methodPart.words];
    return [`${task}${place}`, ...shape, `temperature ${temperature}`, `${max_new_tokens} tokens`, `seed ${seed}`].join(", ");
  }

  refresh() {
    this.methodPart.methodChanged();
    this.pairPart.refresh();
    this.methodPart.refresh(Number(this.refs.temperature.value) === 0);
  }

  // Each message goes beside the control it names first, or above the button.
  showError(text) {
    this.clearErrors();
    const slot = this.checks.slotOf(settingNamed(text));
    const shown = slot && !slot.closest("[hidden]:not(.error)") ? slot : this.refs.runError;
    this.checks.show(shown, labelled(text, this.method?.options));
    shown.scrollIntoView({ block: "nearest" });
  }

  // Those that the fields themselves know of stay.
  clearErrors() {
    this.checks.clear([this.refs.methodRefusal]);
    this.checks.showAll((sentence) => labelled(sentence, this.method?.options));
  }
}
