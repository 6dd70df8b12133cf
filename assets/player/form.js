// The settings as a person edits them, and the errors beside them.
// Knows the fields and what the server offers; judges nothing itself: the server names what is wrong.

import { setText } from "./dom.js";
import { labelled } from "./labels.js";
import { Menu } from "./menu.js";
import { MethodFields } from "./method_fields.js";
import { PairFields } from "./pair_fields.js";
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
    });
    this.fillMenus();
    this.sliders = ["draft_length", "temperature", "max_new_tokens"].map(
      (name) => new Slider(refs[CONTROLS[name]], setup.bounds[name]),
    );
    this.picker = new PromptPicker(refs, setup.tasks, prompts, () => this.onChange());
    this.fields = { ...setup.defaults };
    refs.method.addEventListener("change", () => this.onChange());
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
    const name = text.split(/[^a-z_]/, 1)[0];
    const slots = [...this.refs.form.querySelectorAll("[data-error]")];
    const slot = slots.find((each) => each.dataset.error.split(" ").includes(name));
    const shown = slot && !slot.closest("[hidden]:not(.error)") ? slot : this.refs.runError;
    if (shown.closest("details")) shown.closest("details").open = true;
    setText(shown, labelled(text, this.method?.options));
    shown.hidden = false;
    shown.closest(".field")?.classList.add("is-wrong");
    shown.scrollIntoView({ block: "nearest" });
  }

  clearErrors() {
    for (const each of this.refs.form.querySelectorAll(".error:not([data-ref=methodRefusal])")) each.hidden = true;
    for (const each of this.refs.form.querySelectorAll(".is-wrong")) each.classList.remove("is-wrong");
  }
}
