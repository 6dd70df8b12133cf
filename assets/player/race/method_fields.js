// The part of the form that depends on the method: the menu of methods, how much is drafted, the
// tree, the drawing, the rule, and the method's own options. The server describes each method and each rule; this class
// knows none of them by name.

import { element, option as choice, setText } from "../shared/dom.js";
import { lossOf } from "../shared/loss_words.js";
import { got, nodeCount, optionProblem, problemOf, settingOf } from "../shared/settings.js";
import { moreWords, needOf, pairFor } from "./other_models.js";
import { biasWords } from "./loss_badge.js";
import { Menu } from "../shared/menu.js";
import { Slider } from "./slider.js";

const OUT_OF_REACH = "Not with the chosen models";
const MOST_STEPS = 64; // a slider with more steps is too fine to set by hand

export class MethodFields {
  /**
   * @param {Refs} refs
   * @param {Setup} setup
   */
  constructor(refs, setup) {
    this.refs = refs;
    this.setup = setup;
    this.menu = new Menu(refs.method);
    this.drawingMenu = new Menu(refs.drawing);
    this.ruleMenu = new Menu(refs.rule);
    this.lengthMenu = new Menu(refs.lengthPolicy);
    this.inputs = new Map(); // the input fields of the current method's options, keyed by the option's name
    // The typed texts, keyed by "method option", so that they survive a change of the method.
    this.typed = new Map();
    /** @type {Record<string, string>} */
    this.refusals = {};
    /** @type {MethodOffer | null} */
    this.shown = null;
    this.offer({});
  }

  get method() {
    return this.setup.methods.find((each) => each.name === this.refs.method.value);
  }

  get drawing() {
    return this.setup.drawings.find((each) => each.name === this.refs.drawing.value);
  }

  get rule() {
    return this.setup.rules.find((each) => each.name === this.refs.rule.value);
  }

  get lengthPolicy() {
    return this.setup.length_policies.find((each) => each.name === this.refs.lengthPolicy.value);
  }

  // Offer the methods for a pair of models. `refusals` maps each method that the pair cannot run to
  // the reason.
  /** @param {Record<string, string>} refusals */
  offer(refusals) {
    this.refusals = refusals;
    const offers = this.setup.methods.map(({ name, title, summary, group }) => {
      const refusal = needOf(refusals[name] ?? "");
      return { name, title, group: refusal ? OUT_OF_REACH : group, note: summary, refusal };
    });
    this.menu.fill(offers.sort((a, b) => Number(Boolean(a.refusal)) - Number(Boolean(b.refusal))));
    this.showOthers();
  }

  // Show how many methods the chosen models cannot run. A button next to it chooses other models
  // that can run them.
  showOthers() {
    const { otherModels, otherCount, otherPair } = this.refs;
    const found = pairFor([...this.setup.pairs], Object.keys(this.refusals));
    otherModels.hidden = !found;
    if (!found) return;
    setText(otherCount, moreWords(found.count));
    setText(otherPair, `use other models: ${found.pair.title}`);
    otherPair.value = found.pair.name;
  }

  // Change to another method with its default tree, drawing and rule, and its own options.
  methodChanged() {
    const { branching, drawing, rule } = this.refs;
    const { method } = this;
    if (!method || this.shown === method) return;
    this.shown = method;
    this.drawingMenu.fill(offered(this.setup.drawings, method.drawings));
    drawing.value = method.drawings[0];
    this.ruleMenu.fill(offered(this.setup.rules, method.rules));
    rule.value = method.rules[0];
    this.lengthMenu.fill(offered(this.setup.length_policies, method.length_policies));
    if (method.tree && branching.value.trim() === "") branching.value = method.branching;
    this.showOptions(method);
  }

  /** @param {MethodOffer} method */
  showOptions({ name, options }) {
    this.inputs.clear();
    this.refs.methodOptions.replaceChildren(
      ...options.map((option) => this.optionField(name, option)),
    );
    for (const { name: option, low, high, choices } of options) {
      if (!choices.length && high - low <= MOST_STEPS)
        new Slider(this.inputs.get(option), { low, high, step: 1 }).follow();
    }
  }

  /**
   * @param {string} method
   * @param {MethodOption} option
   */
  optionField(method, { name, title, default: usual, low, high, hint, choices }) {
    const field = element("div", choices.length ? "field" : "field slider");
    const input = choices.length ? menuOf(choices) : numberField();
    input.id = `sv-option-${name}`;
    input.value = this.typed.get(`${method} ${name}`) ?? String(usual);
    input.addEventListener("input", () => this.typed.set(`${method} ${name}`, input.value));
    const label = element("label", "", title);
    label.htmlFor = input.id;
    const error = element("p", "error");
    Object.assign(error, { hidden: true, role: "alert" });
    error.dataset.error = name;
    const [hintId, errorId] = [`${input.id}-hint`, `${input.id}-error`];
    input.setAttribute("aria-describedby", `${hintId} ${errorId}`);
    const words = element("p", "hint", hint || `from ${low} to ${high}`);
    words.id = hintId;
    error.id = errorId;
    field.append(label, input, words, error);
    this.inputs.set(name, input);
    return field;
  }

  // Set the options of the current method from texts, keyed by option name. Unknown names are
  // ignored.
  /** @param {Record<string, string>} values */
  set options(values) {
    for (const [name, text] of Object.entries(values)) {
      const input = this.inputs.get(name);
      if (!input) continue;
      input.value = text;
      input.dispatchEvent(new Event("input", { bubbles: true }));
    }
  }

  // The fields of the method that the browser can check.
  get checked() {
    const { method, refs } = this;
    const tree = method?.tree
      ? [
          {
            name: "branching",
            control: refs.branching,
            problem: (/** @type {string} */ text) => this.treeProblem(text),
          },
        ]
      : [];
    const own = (method?.options ?? []).map((option) => {
      const problem = (/** @type {string} */ text) =>
        optionProblem(option, text, this.inputs.get(option.at_least)?.value);
      return {
        name: option.name,
        control: this.inputs.get(option.name),
        options: method?.options,
        problem,
      };
    });
    return [...tree, ...own];
  }

  // Return what is wrong with the branching, or "" if nothing is.
  /** @param {string} text */
  treeProblem(text) {
    const problem = problemOf(settingOf("branching"), text);
    if (problem || text.trim() === "") return problem;
    const [depth, most] = [this.refs.draftLength.value, this.setup.most_nodes];
    const nodes = nodeCount(text, depth);
    return nodes > most
      ? `${got(`must give at most ${most} nodes with a draft length of ${depth}`, text.trim())}, which gives ${nodes.toLocaleString("en")}`
      : "";
  }

  // The reason why the pair of models cannot run the method, or "" if it can.
  get refusal() {
    return this.refusals[this.method?.name ?? ""] ?? "";
  }

  // The fields that apply to the current method, keyed by the server's names.
  get order() {
    const { method, refs } = this;
    /** @type {Record<string, any>} */
    const order = {};
    if (method?.tree) order.branching = refs.branching.value;
    if (method && method.drawings.length > 1) order.drawing = refs.drawing.value;
    if (method && method.rules.length > 1) order.rule = refs.rule.value;
    if (method && method.length_policies.length > 1) order.length_policy = refs.lengthPolicy.value;
    if (method?.can_stop) order.entropy_threshold = refs.entropyThreshold.value;
    if (this.inputs.size) {
      order.options = Object.fromEntries(
        [...this.inputs].map(([name, input]) => [name, input.value]),
      );
    }
    return order;
  }

  // The fields that are not at their defaults, in words.
  get words() {
    const { method, refs, drawing, lengthPolicy, rule } = this;
    if (!method) return [];
    const tree = method.tree && refs.branching.value ? [`branching ${refs.branching.value}`] : [];
    const drawn = drawing && drawing.name !== method.drawings[0] ? [drawing.title] : [];
    const judged = rule && rule.name !== method.rules[0] ? [rule.title] : [];
    const length =
      lengthPolicy && lengthPolicy.name !== method.length_policies[0]
        ? [`${lengthPolicy.title} length`]
        : [];
    const stop =
      method.can_stop && Number(refs.entropyThreshold.value)
        ? [`entropy threshold ${refs.entropyThreshold.value}`]
        : [];
    const own = method.options
      .filter((option) => this.inputs.get(option.name)?.value !== String(option.default))
      .map((option) => `${option.title.toLowerCase()} ${this.inputs.get(option.name)?.value}`);
    return [...length, ...stop, ...tree, ...drawn, ...judged, ...own];
  }

  // Scroll to the fields that a newly chosen method adds.
  reveal() {
    this.refs.methodFields.scrollIntoView({ block: "nearest" });
  }

  /** @param {boolean} isGreedy */
  refresh(isGreedy) {
    const { refs, method, refusal } = this;
    setText(refs.methodNote, refusal ? "" : (method?.summary ?? ""));
    setText(refs.methodRefusal, refusal && `${refusal[0].toUpperCase()}${refusal.slice(1)}.`);
    refs.methodRefusal.hidden = !refusal;
    setText(refs.depthCap, method?.depth_cap ?? "");
    refs.depthCap.hidden = !method?.depth_cap;
    refs.lengthField.hidden = !(method && method.length_policies.length > 1);
    setText(refs.lengthNote, this.lengthPolicy?.summary ?? "");
    refs.entropyField.hidden = !method?.can_stop;
    refs.branchingField.hidden = !method?.tree;
    refs.drawingField.hidden = !(method && method.drawings.length > 1);
    refs.ruleField.hidden = !(method && method.rules.length > 1);
    refs.methodOptions.hidden = this.inputs.size === 0;
    setText(refs.methodFixed, method ? fixedWords(method, this.setup) : "");
    refs.methodFields.hidden = [
      refs.branchingField,
      refs.drawingField,
      refs.ruleField,
      refs.methodOptions,
    ].every((each) => each.hidden);
    setText(refs.treeSize, treeSize(refs.branching.value, refs.draftLength.value));
    this.refreshRule(isGreedy);
  }

  /** @param {boolean} isGreedy */
  refreshRule(isGreedy) {
    const { treeNote, ruleNote, formLoss } = this.refs;
    setText(
      treeNote,
      isGreedy ? "At temperature 0 nothing is drawn: siblings are the most probable tokens." : "",
    );
    setText(ruleNote, this.rule?.summary ?? "");
    const loss = this.refs.ruleField.hidden ? "" : lossOf(this.rule, isGreedy);
    setText(formLoss, loss);
    formLoss.hidden = !loss;
    const bias = loss && !isGreedy ? biasWords(this.method?.biases[this.rule?.name ?? ""]) : "";
    setText(this.refs.formBias, bias);
    this.refs.formBias.hidden = !bias;
  }
}

// Return the entries with these names, in the order of the names.
/**
 * @template {{ name: string }} T
 * @param {T[]} entries
 * @param {string[]} names
 */
function offered(entries, names) {
  return names.flatMap((name) => entries.find((each) => each.name === name) ?? []);
}

// Say which choices the method does not leave, and what it uses instead.
/**
 * @param {MethodOffer} method
 * @param {Setup} setup
 */
function fixedWords({ drawings, rules }, setup) {
  const only = (
    /** @type {{ name: string, title: string }[]} */ all,
    /** @type {string[]} */ names,
  ) => (names.length === 1 ? all.find(({ name }) => name === names[0])?.title : undefined);
  const [drawing, rule] = [only(setup.drawings, drawings), only(setup.rules, rules)];
  const fixed = [drawing && `drawing: ${drawing}`, rule && `verification rule: ${rule}`].filter(
    Boolean,
  );
  return fixed.length ? `This method leaves no choice of ${fixed.join(", or ")}.` : "";
}

function numberField() {
  return Object.assign(element("input"), { type: "text", inputMode: "numeric" });
}

// Return a menu with the values that an option may have.
/** @param {number[]} choices */
function menuOf(choices) {
  const menu = element("select");
  menu.append(...choices.map((each) => choice(String(each), String(each))));
  return menu;
}

// Return the size of the tree in words, such as "21 nodes a round". Return "" without a branching,
// because then only the method knows the size.
/**
 * @param {string} branching
 * @param {string} draftLength
 */
function treeSize(branching, draftLength) {
  if (branching.trim() === "") return "";
  const nodes = nodeCount(branching, draftLength);
  return nodes > 0 ? `${nodes.toLocaleString("en")} ${nodes === 1 ? "node" : "nodes"} a round` : "";
}
