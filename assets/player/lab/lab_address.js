// Writes the lab's forms into the address and reads them from it, so that links and reloads restore
// the forms. This class knows the names of the parameters; the forms know the rules of their
// fields.

import { tab } from "../shared/kept.js";
import { visibleName } from "../shared/link_notice.js";
import { pageIn, pageLink } from "../shared/page_parameter.js";
import { brief, got } from "../shared/settings.js";
import { OWN } from "./own_prompts.js";

const PAGE = "lab";
export const PREFIX = "lab-"; // prefix of the lab's parameters; the settings of a race have no prefix
const LONGEST_TEXT = 4000; // characters; longer prompts do not fit well in a link
const WRITE_MILLISECONDS = 250; // delay, because browsers reject too frequent changes of the address
const LONGEST_VALUE = 500;
const ALL = "prompts"; // name of the field with the number of prompts, which may be empty: all prompts
const [FORM, TEXT] = ["lab-form", "lab-prompts"]; // names under which the tab stores the forms and the prompts

export class LabAddress {
  // `fields` maps a parameter to its control. `rules` maps a parameter to a function that checks a
  // text and returns the problem as a clause, or "". `own` holds the user's own prompts. `onTake()`
  // is called each time a field has been filled, because its value may change the choices of other
  // fields.
  /**
   * @param {Record<string, any>} fields
   * @param {Record<string, (text: string) => string>} rules
   * @param {{ text: string, name: string, order: object, take(given: { text: string, name: string }): void }} own
   * @param {() => void} [onTake]
   */
  constructor(fields, rules, own, onTake = () => {}) {
    this.onTake = onTake;
    this.fields = fields;
    this.rules = rules;
    this.own = own;
  }

  // Fill the forms from the address, or from what this tab stored. Return one sentence for each
  // invalid parameter.
  read() {
    const asked = new URLSearchParams(window.location.search);
    const isAsked = [...asked.keys()].some((name) => name.startsWith(PREFIX));
    const given = isAsked ? asked : new URLSearchParams(tab.recall(FORM, isText) ?? "");
    const names = Object.keys(this.fields).filter((name) => given.has(PREFIX + name));
    const problems = names
      .map((name) => this.take(name, given.get(PREFIX + name) ?? ""))
      .filter(Boolean);
    if (this.isOwn && !given.has(PREFIX + ALL)) this.fields[ALL].value = "";
    const text = given.get(`${PREFIX}text`);
    const own =
      text === null
        ? tab.recall(TEXT, isPrompts)
        : { text, name: given.get(`${PREFIX}file`) ?? "" };
    if (own) this.own.take(own);
    return problems;
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  take(name, text) {
    const problem = this.problem(name, text);
    if (problem) return `${visibleName(this.fields[name], PREFIX + name)} ${problem}`;
    this.fields[name].value = text;
    this.onTake();
    return "";
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  problem(name, text) {
    if (text.length > LONGEST_VALUE)
      return got(`must have at most ${LONGEST_VALUE} characters`, text);
    const problem = this.rules[name]?.(text) ?? "";
    const names = [...(this.fields[name].options ?? [])].map(({ value }) => value);
    if (problem || !names.length || names.includes(text)) return problem;
    return `must be one of ${names.filter(Boolean).join(", ")}, got “${brief(text)}”`;
  }

  // A link to this page that other people can open.
  get link() {
    return this.filled(new URL(pageLink(PAGE), window.location.href));
  }

  // Say what the link leaves out, or return "" if it is complete.
  get linkLimit() {
    return this.isOwn && !this.hasText ? "without the long prompts" : "";
  }

  get isOwn() {
    return this.fields.task.value === OWN;
  }

  get hasText() {
    return this.isOwn && this.own.text.length <= LONGEST_TEXT;
  }

  // Write the fields into an address. Invalid values are left out, because the form already marks
  // them as wrong.
  /** @param {URL} url */
  filled(url) {
    const given = url.searchParams;
    for (const name of [...given.keys()]) if (name.startsWith(PREFIX)) given.delete(name);
    for (const [name, control] of Object.entries(this.fields)) {
      if ((control.value !== "" || name === ALL) && !this.problem(name, control.value))
        given.set(PREFIX + name, control.value);
    }
    if (this.hasText) given.set(`${PREFIX}text`, this.own.text);
    if (this.hasText && this.own.name) given.set(`${PREFIX}file`, this.own.name);
    return url.href;
  }

  // Write the address after a delay, so that only the last of many quick changes is written.
  writeSoon() {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.write(), WRITE_MILLISECONDS);
  }

  write() {
    window.clearTimeout(this.timer);
    const url = new URL(window.location.href);
    const isShown = pageIn(url.searchParams) === PAGE; // every page writes only its own address
    if (isShown) window.history.replaceState(window.history.state, "", this.filled(url));
    tab.keep(FORM, new URL(this.link).search);
    tab.keep(TEXT, this.own.order);
  }
}

/** @param {any} value */
function isText(value) {
  return typeof value === "string";
}

/** @param {any} value */
function isPrompts(value) {
  return isText(value.text) && isText(value.name);
}
