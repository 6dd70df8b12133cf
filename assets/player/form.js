// The settings as a person edits them, and the errors beside them.
// Knows the fields and what the server offers; judges nothing itself: the server names what is wrong.

import { option, setText } from "./dom.js";
import { labelled } from "./labels.js";
import { PromptPicker } from "./prompt_picker.js";
import { Slider } from "./slider.js";

const CUSTOM = "custom";
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
  constructor(refs, setup, prompts, onChange) {
    this.refs = refs;
    this.setup = setup;
    this.onChange = () => (this.refresh(), onChange());
    this.fillMenus();
    this.sliders = ["draft_length", "temperature", "max_new_tokens"].map(
      (name) => new Slider(refs[CONTROLS[name]], setup.bounds[name]),
    );
    this.picker = new PromptPicker(refs, setup.tasks, prompts, () => this.onChange());
    this.fields = { ...setup.defaults };
    refs.method.addEventListener("change", () => this.suggestTree());
    refs.form.addEventListener("input", (event) => {
      if (event.target !== refs.prompt) this.onChange();
    });
  }

  fillMenus() {
    const { pairs, methods, kinds, devices, dtypes } = this.setup;
    const fill = (name, items) =>
      this.refs[name].replaceChildren(...items.map((each) => option(each.name, each.title)));
    fill("pair", [...pairs, { name: CUSTOM, title: "Other models …" }]);
    fill("method", methods);
    fill("treeKind", kinds);
    fill("deviceChoice", devices);
    fill("dtype", dtypes);
    this.refs.deviceChoice.closest(".field").hidden = devices.length < 2;
    this.refs.dtype.closest(".field").hidden = dtypes.length < 2;
  }

  get method() {
    return this.setup.methods.find((each) => each.name === this.refs.method.value);
  }

  // All settings as text, under the server's names (prompt and task apart).
  get fields() {
    const entries = Object.entries(CONTROLS).map(([name, ref]) => [name, this.refs[ref].value]);
    return Object.fromEntries(entries);
  }

  set fields(values) {
    for (const [name, value] of Object.entries(values)) {
      if (name in CONTROLS) this.refs[CONTROLS[name]].value = String(value);
    }
    for (const slider of this.sliders) slider.follow();
    this.refresh();
  }

  // What is sent: settings that do not apply are left out.
  get order() {
    const { target, draft, branching, tree_kind, ...order } = this.fields;
    if (order.pair === CUSTOM) Object.assign(order, { target, draft });
    if (this.method?.tree) Object.assign(order, { branching, tree_kind });
    return { ...order, prompt: this.picker.text, task: this.picker.task || null };
  }

  // The setting in a few words, for a line about it.
  get words() {
    const { draft_length, branching, temperature, max_new_tokens, seed } = this.fields;
    const task = this.setup.tasks.find((each) => each.name === this.picker.task)?.title ?? "free text";
    const place = this.picker.isHeldOut ? ` ${this.picker.place + 1}` : "";
    const tree = this.method?.tree && branching ? [`branching ${branching}`] : [];
    const shape = [this.method?.title ?? "", `K ${draft_length}`, ...tree];
    return [`${task}${place}`, ...shape, `temperature ${temperature}`, `${max_new_tokens} tokens`, `seed ${seed}`].join(", ");
  }

  refresh() {
    const pair = this.setup.pairs.find((each) => each.name === this.refs.pair.value);
    this.refs.custom.hidden = this.refs.pair.value !== CUSTOM;
    setText(this.refs.pairNote, pair?.note ?? "Any two models that share a vocabulary.");
    setText(this.refs.methodNote, this.method?.summary ?? "");
    this.refs.treeShape.hidden = !this.method?.tree;
    this.refreshSiblings();
    setText(this.refs.treeSize, treeSize(this.refs.branching.value, this.refs.draftLength.value));
  }

  // A method that takes a tree starts with a usual one.
  suggestTree() {
    const { branching } = this.refs;
    if (this.method?.tree && branching.value.trim() === "") branching.value = this.method.branching;
    this.onChange();
  }

  // At temperature 0 independent draws would all be the same token: the tree takes the best ones.
  refreshSiblings() {
    const { treeKind, treeNote } = this.refs;
    const isGreedy = Number(this.refs.temperature.value) === 0;
    for (const each of treeKind.options) each.hidden = !this.method?.kinds.includes(each.value);
    treeKind.disabled = isGreedy;
    setText(treeNote, isGreedy ? "At temperature 0: the most probable tokens." : "");
  }

  // Each message goes beside the control it names first, or above the button.
  showError(text) {
    this.clearErrors();
    const name = text.split(/[^a-z_]/, 1)[0];
    const slots = [...this.refs.form.querySelectorAll("[data-error]")];
    const slot = slots.find((each) => each.dataset.error.split(" ").includes(name));
    const shown = slot && !slot.closest("[hidden]:not(.error)") ? slot : this.refs.runError;
    if (shown.closest("details")) shown.closest("details").open = true;
    shown.textContent = labelled(text);
    shown.hidden = false;
    shown.closest(".field")?.classList.add("is-wrong");
    shown.scrollIntoView({ block: "nearest" });
  }

  clearErrors() {
    for (const each of this.refs.form.querySelectorAll(".error")) each.hidden = true;
    for (const each of this.refs.form.querySelectorAll(".is-wrong")) each.classList.remove("is-wrong");
  }
}

// "3,2" and K = 4 -> "27 nodes: 3 × 2 × 1 × 1 wide"; the server refuses what is too large.
function treeSize(branching, draftLength) {
  const widths = branching.split(",").map(Number).filter((width) => width >= 1);
  let nodes = 0;
  let level = 1;
  for (let depth = 0; depth < Math.min(Number(draftLength) || 0, 64); depth += 1) {
    level *= widths[depth] ?? 1;
    nodes += level;
  }
  return Number.isFinite(nodes) && nodes > 0 ? `${nodes.toLocaleString("en")} ${nodes === 1 ? "node" : "nodes"} a round` : "";
}
