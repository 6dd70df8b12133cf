// The settings of a race in the browser's address. A link contains all of them, so that it repeats
// the race. It also contains the user's selection: a round, and a stop in it, which is an examined
// node or the extra token.

import { pageIn } from "../shared/page_parameter.js";
import { OF_PROMPT, OPTION, putSetting } from "../shared/setting_parameters.js";
import { addressSettings, brief, optionProblem, problemOf, settingOf } from "../shared/settings.js";

const LONGEST_TEXT = 4000; // characters; a longer prompt is left out of the link

const OF_A_STOP = ["round", "pos"]; // round and stop in the address, which count from 1

export class Address {
  // `chosen()` returns the round and the stop that the user selected, counted from 0. It returns
  // null if the user selected none, or if the race has other settings than the form.
  /**
   * @param {any} form
   * @param {Setup} setup
   * @param {() => { round: number, at: number } | null} [chosen]
   */
  constructor(form, setup, chosen = () => null) {
    this.form = form;
    this.setup = setup;
    this.chosen = chosen;
  }

  // Return the round and stop in the address, counted from 0, or null if there are none. Stops of
  // other pages are ignored.
  get stop() {
    const given = new URLSearchParams(window.location.search);
    if (!["race", null].includes(pageIn(given))) return null;
    const [round, at] = OF_A_STOP.map((name) => Number(given.get(name) ?? 1) - 1);
    return given.has("round") && [round, at].every((each) => Number.isInteger(each) && each >= 0)
      ? { round, at }
      : null;
  }

  // Return whether the address contains any setting of a race.
  get isNamed() {
    const given = new URLSearchParams(window.location.search);
    return [...addressSettings().map(({ key }) => key), ...OF_PROMPT].some((key) => given.has(key));
  }

  // Return whether the address contains the same settings as the parameters `query`.
  /** @param {string} [query] */
  isOf(query) {
    const [given, other] = [window.location.search, query].map((each) => new URLSearchParams(each));
    const names = new Set([...other.keys(), ...OF_PROMPT]);
    return query !== undefined && [...names].every((name) => given.get(name) === other.get(name));
  }

  // Fill the form from the address. Return one sentence for each invalid parameter.
  read(search = window.location.search) {
    const given = new URLSearchParams(search);
    const problems = [];
    /** @type {Record<string, any>} */
    const values = {};
    for (const setting of addressSettings()) {
      const { key, name, title } = setting;
      if (!given.has(key)) continue;
      const problem = this.problem(setting, given.get(key) ?? "");
      if (problem) problems.push(`${title} ${problem}`);
      else values[name] = given.get(key);
    }
    this.form.fields = this.allowed(values, problems);
    this.readOptions(given, problems);
    this.readPrompt(given, problems);
    return problems;
  }

  // Check the menus in the address of which each method allows only some entries.
  // Leave out and report what is not allowed.
  /**
   * @param {Record<string, any>} given
   * @param {string[]} problems
   */
  allowed(given, problems) {
    const values = { ...given };
    const name = values.method ?? settingOf("method").default;
    const { drawings, rules, length_policies } = /** @type {MethodOffer} */ (
      this.setup.methods.find((each) => each.name === name)
    );
    for (const [setting, known] of Object.entries({
      drawing: drawings,
      rule: rules,
      length_policy: length_policies,
    })) {
      const text = values[setting];
      if (text === undefined || known.includes(text)) continue;
      problems.push(
        `${settingOf(setting).title} must be ${known.length > 1 ? "one of " : ""}${known.join(", ")} for this method, got “${brief(text)}”`,
      );
      delete values[setting];
    }
    return values;
  }

  /**
   * @param {URLSearchParams} given
   * @param {string[]} problems
   */
  readOptions(given, problems) {
    const known = this.form.method.options;
    /** @type {Record<string, string>} */
    const values = {};
    for (const [parameter, text] of given) {
      if (!parameter.startsWith(OPTION)) continue;
      const option = known.find((/** @type {any} */ each) => OPTION + each.name === parameter);
      const problem = option ? optionProblem(option, text) : "is no option of this method";
      if (problem)
        problems.push(
          `${option ? option.title : `“${brief(parameter.slice(OPTION.length))}”`} ${problem}`,
        );
      else values[option.name] = text;
    }
    this.form.methodPart.options = values;
  }

  /**
   * @param {URLSearchParams} given
   * @param {string[]} problems
   */
  readPrompt(given, problems) {
    const { prompts } = this.form.picker; // the prompts for the pair of models in the address
    const tasks = Object.keys(prompts);
    let task = given.get("task");
    if (task !== null && !tasks.includes(task)) {
      problems.push(`Task must be one of ${tasks.join(", ")}, got “${brief(task)}”`);
      task = null;
    }
    if (given.has("text")) {
      this.form.picker.showText(task ?? "", given.get("text"));
      return;
    }
    const known = task ?? tasks[0];
    const place = Number(given.get("prompt") ?? 1);
    const count = prompts[known].length;
    const holds = Number.isInteger(place) && place >= 1 && place <= count;
    if (!holds)
      problems.push(`Prompt must be from 1 to ${count}, got “${brief(given.get("prompt"))}”`);
    this.form.picker.show(known, holds ? place - 1 : 0);
  }

  /**
   * @param {SettingRow} setting
   * @param {string} text
   */
  problem(setting, text) {
    if (!setting.menu) return problemOf(setting, text);
    const choices = /** @type {Choice[]} */ (/** @type {any} */ (this.setup)[setting.menu]);
    const names = choices.map(({ name }) => name);
    return names.includes(text) ? "" : `must be one of ${names.join(", ")}, got “${brief(text)}”`;
  }

  // Return every setting of the form as address parameters, including those at their defaults,
  // because defaults may change later. Invalid values are left out, because the form already marks
  // them as wrong.
  get query() {
    const given = new URLSearchParams();
    const { picker } = this.form;
    if (picker.task) given.set("task", picker.task);
    if (picker.isHeldOut) given.set("prompt", String(picker.place + 1));
    else if (picker.text.length <= LONGEST_TEXT) given.set("text", picker.text);
    const order = this.form.order;
    for (const setting of addressSettings()) {
      const text = order[setting.name];
      const isWhole = text !== undefined && text !== "" && text.length <= LONGEST_TEXT;
      if (isWhole && !this.problem(setting, text)) given.set(setting.key, text);
    }
    for (const option of this.form.method?.options ?? []) {
      const text = order.options?.[option.name];
      if (text !== undefined && !optionProblem(option, text)) given.set(OPTION + option.name, text);
    }
    return given;
  }

  get link() {
    const url = new URL(window.location.href);
    const given = url.searchParams;
    for (const name of OF_A_STOP) given.delete(name);
    putSetting(given, this.query);
    const chosen = this.chosen();
    if (chosen)
      OF_A_STOP.forEach((name, which) =>
        given.set(name, String((which ? chosen.at : chosen.round) + 1)),
      );
    return url.href;
  }

  // Say which part of the race the link leaves out, or "" if it is complete.
  get linkLimit() {
    const { picker, order } = this.form;
    const texts = [picker.isHeldOut ? "" : picker.text, order.system ?? ""];
    return texts.every((text) => text.length <= LONGEST_TEXT) ? "" : "without the long prompt";
  }

  write() {
    window.history.replaceState(window.history.state, "", this.link);
  }
}
