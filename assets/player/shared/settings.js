// The settings, from the server's table (specviz/records/settings.py): the title of each, and which
// texts are valid for it.

const WHOLE = /^\s*[+-]?\d+\s*$/;
const BRANCHING = /^\s*(0*[1-9]\d*\s*(,\s*0*[1-9]\d*\s*)*)?$/;
const ENDLESS = 10 ** 9; // smallest upper bound that error messages leave out

// Titles of names that are not in the table of settings, but with which an error sentence of the
// server may begin.
/** @type {Record<string, string>} */
const OTHER_TITLES = {
  prompts: "Prompts",
  count: "Prompts",
  repeats: "Repeats",
  batch_size: "Batch size",
  "batch-size": "Batch size",
  seconds: "Seconds",
  methods: "Methods",
  axis: "Vary",
};

const LENGTH = "max_new_tokens";
const OF_PROMPT = new Set(["task", "prompt"]);
export const SWITCHED_ON = "yes"; // the text of a checkbox that is on; the text is empty if it is off

/** @type {Map<string, SettingRow>} */
const table = new Map();

// Store the table of settings. It must be called once, before anything uses the settings.
/** @param {SettingRow[]} settings */
export function takeSettings(settings) {
  for (const setting of settings) table.set(setting.name, setting);
}

export function allSettings() {
  return [...table.values()];
}

/** @param {string} name */
export function settingOf(name) {
  return /** @type {SettingRow} */ (table.get(name));
}

// Return the settings that are in the address, without task and prompt, which have parameters of
// their own.
export function addressSettings() {
  return allSettings().filter(({ key, name }) => key && !OF_PROMPT.has(name));
}

// Return the settings that are numbers and that every method has, those with a slider first.
export function plainNumbers() {
  const plain = allSettings().filter(({ bounds, part }) => bounds && part !== "method");
  return [...plain.filter(({ slider }) => slider), ...plain.filter(({ slider }) => !slider)];
}

// Return the default of each setting as text, keyed by name.
export function defaults() {
  return Object.fromEntries(allSettings().map((setting) => [setting.name, setting.default]));
}

// Return "" if a text is valid for a setting, otherwise what it must be. Menus are not checked.
/**
 * @param {{ name: string, type?: string, bounds?: Bounds | null }} setting
 * @param {string} text
 */
export function breachOf({ name, type, bounds }, text) {
  if (type === "switch")
    return ["", SWITCHED_ON].includes(text) ? "" : `must be ${SWITCHED_ON} or empty`;
  if (name === "branching")
    return BRANCHING.test(text) ? "" : "must be whole numbers separated by commas, such as 3,2";
  return bounds ? numberBreach(bounds, text) : "";
}

// Return the rule that a text breaks, such as "must be a whole number from 1 to 8", or "" if it is
// valid. If `least` is given, no value between 0 and `least` is valid.
/**
 * @param {Bounds} bounds
 * @param {string} text
 */
export function numberBreach(
  { low, high, is_whole, excludes_low = false, excludes_high = false, least = 0 },
  text,
) {
  const number = Number(text);
  const isNumber = is_whole ? WHOLE.test(text) : text.trim() !== "" && Number.isFinite(number);
  const isAbove = excludes_low ? number > low : number >= low;
  const isBelow = high === null || (excludes_high ? number < high : number <= high);
  if (isNumber && isAbove && number > 0 && number < least)
    return `must be 0 or from ${least} to ${high}`;
  if (isNumber && isAbove && isBelow) return "";
  const isEndless = high === null || (high >= ENDLESS && !(number > high));
  return `must be a ${is_whole ? "whole " : ""}number ${range(low, isEndless ? null : high, excludes_low, excludes_high)}`;
}

/**
 * @param {number} low
 * @param {number | null} high
 * @param {boolean} excludesLow
 * @param {boolean} excludesHigh
 */
function range(low, high, excludesLow, excludesHigh) {
  const least = low.toLocaleString("en-US", { maximumFractionDigits: 9 });
  if (high === null) return `of at least ${least}`;
  const most = high.toLocaleString("en-US", { maximumFractionDigits: 9 });
  if (excludesHigh) return `${excludesLow ? "above" : "of at least"} ${least} and below ${most}`;
  return excludesLow ? `above ${least} and at most ${most}` : `from ${least} to ${most}`;
}

// Return what is wrong with a text, as a clause that follows the name of the setting, or "" if it
// is valid.
/**
 * @param {SettingRow} setting
 * @param {string} text
 */
export function problemOf(setting, text) {
  return got(breachOf(setting, text), text);
}

// Return what is wrong with a text for a setting on this pair of models, or "" if it is valid. The
// new tokens must fit into the target's context, together with the prompt.
/**
 * @param {SettingRow} setting
 * @param {PairOffer | undefined} pair
 * @param {string} text
 */
export function problemFor(setting, pair, text) {
  const problem = problemOf(setting, text);
  const context = setting.name === LENGTH ? pair?.context : null;
  if (problem || !context || Number(text) < context) return problem;
  return got(
    `must be below ${context.toLocaleString("en")}, the context of these models in tokens`,
    text,
  );
}

// Return how many nodes a tree has, from its branching as text and its depth. The branching "3,2"
// with K = 4 gives 3 + 6 + 6 + 6 = 21. Return 0 if the texts are not valid numbers.
/**
 * @param {string} branching
 * @param {string} draftLength
 */
export function nodeCount(branching, draftLength) {
  const widths = branching
    .split(",")
    .map(Number)
    .filter((width) => width >= 1);
  let nodes = 0;
  let level = 1;
  for (let depth = 0; depth < Math.min(Number(draftLength) || 0, 64); depth += 1) {
    level *= widths[depth] ?? 1;
    nodes += level;
  }
  return Number.isFinite(nodes) ? nodes : 0;
}

/**
 * @param {Bounds} bounds
 * @param {string} text
 */
export function numberProblem(bounds, text) {
  return got(numberBreach(bounds, text), text);
}

// Check the value of an option that only one method has. It must be a whole number within the
// option's bounds, or one of its choices. If the option has `at_least`, the name of another option,
// its value must not be smaller than the other option's value `least`.
/**
 * @param {{ low: number, high: number, choices: number[], at_least?: string }} option
 * @param {string} text
 * @param {string} [least]
 */
export function optionProblem({ low, high, choices, at_least }, text, least = "") {
  if (choices.length)
    return choices.map(String).includes(text)
      ? ""
      : got(`must be one of ${choices.join(", ")}`, text);
  const isBelow = Number(text) < Number(least);
  return (
    numberProblem({ low, high, is_whole: true }, text) ||
    got(isBelow ? `must be at least ${at_least} = ${least}` : "", text)
  );
}

/**
 * @param {string} breach
 * @param {string | null | undefined} text
 */
export function got(breach, text) {
  return breach && `${breach}, got “${brief(text)}”`;
}

const LONGEST_QUOTED = 40;

/** @param {string | null | undefined} text */
export function brief(text) {
  const plain = String(text ?? "");
  return plain.length > LONGEST_QUOTED ? `${plain.slice(0, LONGEST_QUOTED - 1)}…` : plain;
}

// Return the server's name of the setting with which an error sentence of the server begins.
/** @param {string} sentence */
export function settingNamed(sentence) {
  return sentence.split(/[^a-z_]/, 1)[0];
}

// Replace the server's names of settings in a sentence by the titles in the form. The first word is
// always taken as a name. A later word is taken as a name only if it contains an underscore. The
// user's own text after "got" is kept. `options` are the options of the method: {name, title}.
/**
 * @param {string} sentence
 * @param {{ name: string, title: string }[]} [options]
 */
export function labelled(sentence, options = []) {
  const end = sentence.indexOf(", got ");
  const [rule, rest] = end < 0 ? [sentence, ""] : [sentence.slice(0, end), sentence.slice(end)];
  const title = (/** @type {string} */ name) =>
    titleOf(name) ?? options.find((option) => option.name === name)?.title ?? name;
  return rule.replace(/^[a-z_-]+(?= )/, title).replace(/\b[a-z]+_[a-z_]+\b/g, title) + rest;
}

/** @param {string} name */
function titleOf(name) {
  const setting = table.get(name);
  return (setting?.key && setting.title) || OTHER_TITLES[name];
}

// Return the sampling settings besides the temperature in words, such as ["top-k 40"]. Settings
// that are switched off are left out.
/** @param {Record<string, any>} config */
export function cutWords(config) {
  const cuts = allSettings().filter(({ part, off }) => part === "sampling" && off !== null);
  return cuts
    .filter(({ name, off }) => (config[name] ?? off) !== off)
    .map(({ name, word }) => `${word} ${config[name]}`);
}
