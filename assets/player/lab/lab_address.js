// The lab's forms in the address, so that a link and a reload bring them back.
// Knows the names of the parameters; what a field may hold, its form says.

import { tab } from "../shared/kept.js";
import { pageIn, pageLink } from "../shared/page_parameter.js";
import { brief, got } from "../shared/settings.js";
import { OWN } from "./own_prompts.js";

const PAGE = "lab";
export const PREFIX = "lab-"; // the race's setting has the plain names
const LONGEST_TEXT = 4000; // longer prompts do not travel well in a link
const WRITE_MILLISECONDS = 250; // browsers refuse an address that changes too often
const LONGEST_VALUE = 500;
const ALL = "prompts"; // an empty count is all of them
const [FORM, TEXT] = ["lab-form", "lab-prompts"]; // what a tab remembers

export class LabAddress {
  // `fields`: parameter -> its control; `rules`: parameter -> what is wrong with a text, as a clause, where
  // the field has a rule; `own`: the prompts of one's own; `onTake()`: the field that was just taken may
  // decide what others offer.
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

  // Fill the forms from the address, or from what this tab remembers; one sentence per parameter that
  // makes no sense.
  read() {
    const asked = new URLSearchParams(window.location.search);
    const isAsked = [...asked.keys()].some((name) => name.startsWith(PREFIX));
    const given = isAsked ? asked : new URLSearchParams(tab.recall(FORM, isText) ?? "");
    const names = Object.keys(this.fields).filter((name) => given.has(PREFIX + name));
    const problems = names.map((name) => this.take(name, given.get(PREFIX + name) ?? "")).filter(Boolean);
    if (this.isOwn && !given.has(PREFIX + ALL)) this.fields[ALL].value = "";
    const text = given.get(`${PREFIX}text`);
    const own = text === null ? tab.recall(TEXT, isPrompts) : { text, name: given.get(`${PREFIX}file`) ?? "" };
    if (own) this.own.take(own);
    return problems;
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  take(name, text) {
    const problem = this.problem(name, text);
    if (problem) return `${PREFIX}${name} ${problem}`;
    this.fields[name].value = text;
    this.onTake();
    return "";
  }

  /**
   * @param {string} name
   * @param {string} text
   */
  problem(name, text) {
    if (text.length > LONGEST_VALUE) return got(`must have at most ${LONGEST_VALUE} characters`, text);
    const problem = this.rules[name]?.(text) ?? "";
    const names = [...(this.fields[name].options ?? [])].map(({ value }) => value);
    if (problem || !names.length || names.includes(text)) return problem;
    return `must be one of ${names.filter(Boolean).join(", ")}, got “${brief(text)}”`;
  }

  // For others: of this page alone.
  get link() {
    return this.filled(new URL(pageLink(PAGE), window.location.href));
  }

  // What the link leaves out.
  get linkLimit() {
    return this.isOwn && !this.hasText ? "without the long prompts" : "";
  }

  get isOwn() {
    return this.fields.task.value === OWN;
  }

  get hasText() {
    return this.isOwn && this.own.text.length <= LONGEST_TEXT;
  }

  // What breaks a rule is no part of it: its field says so, and no link brings it back.
  /** @param {URL} url */
  filled(url) {
    const given = url.searchParams;
    for (const name of [...given.keys()]) if (name.startsWith(PREFIX)) given.delete(name);
    for (const [name, control] of Object.entries(this.fields)) {
      if ((control.value !== "" || name === ALL) && !this.problem(name, control.value)) given.set(PREFIX + name, control.value);
    }
    if (this.hasText) given.set(`${PREFIX}text`, this.own.text);
    if (this.hasText && this.own.name) given.set(`${PREFIX}file`, this.own.name);
    return url.href;
  }

  // Soon; only the last of many changes counts.
  writeSoon() {
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.write(), WRITE_MILLISECONDS);
  }

  write() {
    window.clearTimeout(this.timer);
    const url = new URL(window.location.href);
    const isShown = pageIn(url.searchParams) === PAGE; // the other pages have addresses of their own
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
