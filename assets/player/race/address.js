// The setting in the address bar: a link reproduces a race.
// Knows the names of the parameters; bounds and menus come from the server's setup.

import { branchingBreach, numberBreach } from "../shared/field_rule.js";

const LONGEST_TEXT = 4000; // longer prompts do not travel well in a link

// parameter in the address -> field of the form
const NAMES = {
  pair: "pair",
  target: "target",
  draft: "draft",
  method: "method",
  k: "draft_length",
  branching: "branching",
  siblings: "tree_kind",
  temperature: "temperature",
  "top-k": "top_k",
  "top-p": "top_p",
  seed: "seed",
  tokens: "max_new_tokens",
  device: "device",
  dtype: "dtype",
};
const OPTION = "option-"; // before the name of an option that only one method has
const OURS = new Set([...Object.keys(NAMES), "task", "prompt", "text"]);

export class Address {
  constructor(form, setup, prompts) {
    this.form = form;
    this.setup = setup;
    this.prompts = prompts;
  }

  // Fill the form from the address; returns one sentence per parameter that made no sense.
  read(search = window.location.search) {
    const given = new URLSearchParams(search);
    const problems = [];
    const values = {};
    for (const [name, field] of Object.entries(NAMES)) {
      if (!given.has(name)) continue;
      const problem = this.problem(field, given.get(name));
      if (problem) problems.push(`${name} ${problem}`);
      else values[field] = given.get(name);
    }
    this.form.fields = this.ruled(values, problems);
    this.readOptions(given, problems);
    this.readPrompt(given, problems);
    return problems;
  }

  // Which rules there are depends on the method.
  ruled({ tree_kind: rule, ...values }, problems) {
    if (rule === undefined) return values;
    const name = values.method ?? this.setup.defaults.method;
    const { kinds } = this.setup.methods.find((each) => each.name === name);
    if (kinds.includes(rule)) return { ...values, tree_kind: rule };
    problems.push(`siblings must be one of ${kinds.join(", ")} for this method, got “${brief(rule)}”`);
    return values;
  }

  readOptions(given, problems) {
    const known = this.form.method.options;
    const values = {};
    for (const [parameter, text] of given) {
      if (!parameter.startsWith(OPTION)) continue;
      const option = known.find((each) => OPTION + each.name === parameter);
      const problem = option ? got(numberBreach([option.low, option.high, true], text), text) : "is no option of this method";
      if (problem) problems.push(`${brief(parameter)} ${problem}`);
      else values[option.name] = text;
    }
    this.form.methodPart.options = values;
  }

  readPrompt(given, problems) {
    const tasks = this.setup.tasks.map((task) => task.name);
    let task = given.get("task");
    if (task !== null && !tasks.includes(task)) {
      problems.push(`task must be one of ${tasks.join(", ")}, got “${brief(task)}”`);
      task = null;
    }
    if (given.has("text")) {
      this.form.picker.showText(task ?? "", given.get("text"));
      return;
    }
    const known = task ?? tasks[0];
    const place = Number(given.get("prompt") ?? 1);
    const count = this.prompts[known].length;
    const holds = Number.isInteger(place) && place >= 1 && place <= count;
    if (!holds) problems.push(`prompt must be from 1 to ${count}, got “${brief(given.get("prompt"))}”`);
    this.form.picker.show(known, holds ? place - 1 : 0);
  }

  problem(field, text) {
    const menu = { pair: "pairs", method: "methods", tree_kind: "kinds", device: "devices", dtype: "dtypes" }[field];
    if (menu) {
      const names = this.setup[menu].map((each) => each.name);
      return names.includes(text) ? "" : `must be one of ${names.join(", ")}, got “${brief(text)}”`;
    }
    if (field === "branching") return got(branchingBreach(text), text);
    const bounds = this.setup.bounds[field];
    return bounds ? got(numberBreach(bounds, text), text) : "";
  }

  // The address of the present setting, whole: later defaults may change.
  get link() {
    const given = new URLSearchParams(window.location.search);
    for (const name of [...given.keys()]) if (OURS.has(name) || name.startsWith(OPTION)) given.delete(name);
    const { picker } = this.form;
    if (picker.task) given.set("task", picker.task);
    if (picker.isHeldOut) given.set("prompt", String(picker.place + 1));
    else if (picker.text.length <= LONGEST_TEXT) given.set("text", picker.text);
    const order = this.form.order;
    for (const [name, field] of Object.entries(NAMES)) {
      if (order[field] !== undefined && order[field] !== "") given.set(name, order[field]);
    }
    for (const [name, text] of Object.entries(order.options ?? {})) given.set(OPTION + name, text);
    const url = new URL(window.location.href);
    url.search = given.toString();
    return url.href;
  }

  // What the link leaves out.
  get linkLimit() {
    const holds = this.form.picker.isHeldOut || this.form.picker.text.length <= LONGEST_TEXT;
    return holds ? "" : "without the long prompt";
  }

  write() {
    window.history.replaceState(window.history.state, "", this.link);
  }
}

function got(breach, text) {
  return breach && `${breach}, got “${brief(text)}”`;
}

function brief(text) {
  const plain = String(text ?? "");
  return plain.length > 40 ? `${plain.slice(0, 39)}…` : plain;
}
