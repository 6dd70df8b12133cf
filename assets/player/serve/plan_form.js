// The form of a deployment plan. Its fields are made from the server's table
// (specviz/sizing/serving_plan.py). It returns their values, shows errors below them, and stores
// them in the address.

import { element, option, setText } from "../shared/dom.js";
import { markWrong } from "../shared/field_errors.js";
import { tab } from "../shared/kept.js";
import { brief } from "../shared/settings.js";
import { termButton } from "../shared/terms.js";

export const PREFIX = "serve-";
const FIRST = [
  "target",
  "draft",
  "gpu",
  "gpus",
  "draft_gpus",
  "acceptance",
  "draft_length",
  "batch",
  "load",
];
const MODELS = ["target", "draft"];
const OWN = "own"; // menu value for a model that the user names, by its name on the Hub or by its config.json
const FORM = "serve-form"; // the name under which the tab stores the form
const LONGEST_CONFIG = 100000;
const LONGEST_NAME = 96; // longest name of a model on the Hub

export class PlanForm {
  /**
   * @param {Refs} refs
   * @param {PlanField[]} rows
   * @param {(isName: boolean) => void} onChange is called after a change, with true if the user is typing the name of a model
   */
  constructor(refs, rows, onChange) {
    this.refs = refs;
    this.rows = rows;
    /** @type {Record<string, HTMLInputElement | HTMLSelectElement>} */
    this.controls = {};
    /** @type {Record<string, HTMLElement>} */
    this.errors = {};
    /** @type {Record<string, HTMLTextAreaElement>} */
    this.configs = {};
    for (const row of rows)
      (FIRST.includes(row.name) ? refs.planFields : refs.planOthers).append(...this.made(row));
    refs.plan.addEventListener("input", (/** @type {Event} */ { target }) => {
      this.showOwn();
      onChange(target instanceof HTMLTextAreaElement && !isConfig(target.value));
    });
    refs.plan.addEventListener("submit", (/** @type {Event} */ event) => event.preventDefault());
  }

  /** @param {PlanField} row */
  made(row) {
    const { name, title, unit, meaning, choices } = row;
    const field = element("div", choices.length ? "field is-wide" : "field");
    const id = `sv-serve-${name}`;
    const label = element("label");
    label.htmlFor = id;
    const term = termButton(title, name);
    Object.assign(term.dataset, { title, meaning });
    label.append(term, ...(unit ? [" ", element("span", "hint", unit)] : []));
    const control = choices.length ? menu(choices) : number(row);
    control.id = id;
    const error = element("p", "error");
    Object.assign(error, { id: `${id}-error`, hidden: true });
    control.setAttribute("aria-describedby", error.id);
    this.controls[name] = control;
    this.errors[name] = error;
    field.append(label, control, error);
    if (!MODELS.includes(name)) return [field];
    const config = element("textarea");
    Object.assign(config, {
      rows: 5,
      spellcheck: false,
      maxLength: LONGEST_CONFIG,
      placeholder: 'owner/model\nor {"num_hidden_layers": 32, …}',
      hidden: true,
    });
    config.setAttribute("aria-label", `Hub name or config.json of the ${title}`);
    config.setAttribute("aria-describedby", error.id);
    this.configs[name] = config;
    field.append(config);
    return [field];
  }

  showOwn() {
    for (const name of MODELS) this.configs[name].hidden = this.controls[name].value !== OWN;
  }

  // The request for the server.
  get question() {
    const plan = Object.fromEntries(
      Object.entries(this.controls).map(([name, { value }]) => [name, value.trim()]),
    );
    const configs = MODELS.filter((name) => plan[name] === OWN).map((name) => [
      `${name}_config`,
      this.configs[name].value,
    ]);
    return { plan, ...Object.fromEntries(configs) };
  }

  // Show an error sentence of the server, which begins with the name of a field, below that field.
  // An empty sentence removes the error. Return the sentence with the field's title.
  /** @param {string} sentence */
  report(sentence) {
    const [name] = sentence.split(" ", 1);
    const row = this.rows.find((each) => each.name === name);
    const shown = row ? sentence.replace(name, row.title) : sentence;
    for (const { name: each } of this.rows) {
      const isWrong = each === row?.name;
      markWrong(this.controls[each], isWrong);
      this.errors[each].hidden = !isWrong;
      setText(this.errors[each], isWrong ? shown : "");
    }
    if (row && !FIRST.includes(name)) this.refs.planMore.open = true;
    return shown;
  }

  // Fill the form from the address, or from what this tab stored. Return one sentence for each
  // invalid parameter.
  read() {
    const asked = new URLSearchParams(window.location.search);
    const isAsked = [...asked.keys()].some((name) => name.startsWith(PREFIX));
    const given = isAsked
      ? asked
      : new URLSearchParams(tab.recall(FORM, (value) => typeof value === "string") ?? "");
    const problems = [];
    for (const { name, title, choices, default: usual } of this.rows) {
      const text = given.get(PREFIX + name) ?? usual;
      if (MODELS.includes(name) && text.includes("/") && text.length <= LONGEST_NAME) {
        this.configs[name].value = text;
        this.controls[name].value = OWN;
        continue;
      }
      const isOffered = !choices.length || choices.some((each) => each.name === text);
      if (!isOffered || text.length > 40) problems.push(`${title} cannot be “${brief(text)}”`);
      this.controls[name].value = isOffered && text.length <= 40 ? text : usual;
    }
    this.refs.planMore.open = this.rows.some(
      ({ name, default: usual }) => !FIRST.includes(name) && this.controls[name].value !== usual,
    );
    this.showOwn();
    return problems;
  }

  // Write the fields that are not at their defaults into an address. A link contains the name of a
  // model on the Hub, but never a pasted configuration.
  /** @param {URL} url */
  filled(url) {
    for (const { name, default: usual } of this.rows) {
      let value = this.controls[name].value.trim();
      if (value === OWN) value = this.nameOf(name) || usual;
      if (value === usual) url.searchParams.delete(PREFIX + name);
      else url.searchParams.set(PREFIX + name, value);
    }
    return url.href;
  }

  /** @param {string} link */
  keep(link) {
    tab.keep(FORM, new URL(link).search);
  }

  // Return the name of the user's model, or "" if the field holds a configuration.
  /** @param {string} model */
  nameOf(model) {
    const text = this.configs[model].value.trim();
    return text.includes("/") && !isConfig(text) && text.length <= LONGEST_NAME ? text : "";
  }

  get hasPasted() {
    return MODELS.some((name) => this.controls[name].value === OWN && !this.nameOf(name));
  }
}

/** @param {string} text */
function isConfig(text) {
  return text.trimStart().startsWith("{");
}

/** @param {Choice[]} choices */
function menu(choices) {
  const made = element("select");
  made.append(...choices.map(({ name, title }) => option(name, title)));
  return made;
}

/** @param {PlanField} row */
function number({ is_whole: isWhole }) {
  const made = element("input");
  Object.assign(made, { type: "text", inputMode: isWhole ? "numeric" : "decimal" });
  return made;
}
