// The plan's fields, made from the server's table (specviz/sizing/serving_plan.py): what they hold, which of them
// breaks a rule, and the part of the address that brings them back.

import { element, option, setText } from "../shared/dom.js";
import { markWrong } from "../shared/field_errors.js";
import { tab } from "../shared/kept.js";
import { brief } from "../shared/settings.js";
import { termButton } from "../shared/terms.js";

export const PREFIX = "serve-";
const FIRST = ["target", "draft", "gpu", "gpus", "draft_gpus", "acceptance", "draft_length", "batch", "load"];
const MODELS = ["target", "draft"];
const OWN = "own"; // a choice: by its name on the Hub or its config.json
const FORM = "serve-form"; // what a tab remembers
const LONGEST_CONFIG = 100000;
const LONGEST_NAME = 96; // on the Hub

export class PlanForm {
  /**
   * @param {Refs} refs
   * @param {PlanField[]} rows
   * @param {(isName: boolean) => void} onChange whether a model's name is being typed
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
    for (const row of rows) (FIRST.includes(row.name) ? refs.planFields : refs.planOthers).append(...this.made(row));
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
    Object.assign(config, { rows: 5, spellcheck: false, maxLength: LONGEST_CONFIG, placeholder: 'owner/model\nor {"num_hidden_layers": 32, …}', hidden: true });
    config.setAttribute("aria-label", `Hub name or config.json of the ${title}`);
    config.setAttribute("aria-describedby", error.id);
    this.configs[name] = config;
    field.append(config);
    return [field];
  }

  showOwn() {
    for (const name of MODELS) this.configs[name].hidden = this.controls[name].value !== OWN;
  }

  // What the server is asked.
  get question() {
    const plan = Object.fromEntries(Object.entries(this.controls).map(([name, { value }]) => [name, value.trim()]));
    const configs = MODELS.filter((name) => plan[name] === OWN).map((name) => [`${name}_config`, this.configs[name].value]);
    return { plan, ...Object.fromEntries(configs) };
  }

  // A sentence of the server, which begins with the name of a field, stands under that field; "" where nothing is
  // wrong. Gives it with the field's title.
  /** @param {string} sentence */
  report(sentence) {
    const [name] = sentence.split(" ", 1);
    const row = this.rows.find((each) => each.name === name);
    const told = row ? sentence.replace(name, row.title) : sentence;
    for (const { name: each } of this.rows) {
      const isWrong = each === row?.name;
      markWrong(this.controls[each], isWrong);
      this.errors[each].hidden = !isWrong;
      setText(this.errors[each], isWrong ? told : "");
    }
    if (row && !FIRST.includes(name)) this.refs.planMore.open = true;
    return told;
  }

  // ---- the address

  // From the address, or from what this tab remembers; a sentence for each parameter that makes no sense.
  read() {
    const asked = new URLSearchParams(window.location.search);
    const isAsked = [...asked.keys()].some((name) => name.startsWith(PREFIX));
    const given = isAsked ? asked : new URLSearchParams(tab.recall(FORM, (value) => typeof value === "string") ?? "");
    const problems = [];
    for (const { name, choices, default: usual } of this.rows) {
      const text = given.get(PREFIX + name) ?? usual;
      if (MODELS.includes(name) && text.includes("/") && text.length <= LONGEST_NAME) {
        this.configs[name].value = text;
        this.controls[name].value = OWN;
        continue;
      }
      const isOffered = !choices.length || choices.some((each) => each.name === text);
      if (!isOffered || text.length > 40) problems.push(`${PREFIX}${name} “${brief(text)}”`);
      this.controls[name].value = isOffered && text.length <= 40 ? text : usual;
    }
    this.refs.planMore.open = this.rows.some(({ name, default: usual }) => !FIRST.includes(name) && this.controls[name].value !== usual);
    this.showOwn();
    return problems;
  }

  // The fields that are not at their defaults. A pasted configuration is no part of a link, a name on the Hub is.
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

  // What stands beside a choice of one's own, where it is no configuration.
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
