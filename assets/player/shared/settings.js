// The settings as the server's table lists them (specviz/records/settings.py): what each is called, and
// what a text that is typed for it may be.

const WHOLE = /^\s*[+-]?\d+\s*$/;
const BRANCHING = /^\s*(0*[1-9]\d*\s*(,\s*0*[1-9]\d*\s*)*)?$/;
const ENDLESS = 10 ** 9; // a bound that nobody meets by hand is not named
// what else the server's sentences begin with
/** @type {Record<string, string>} */
const OTHER_TITLES = {
  prompts: "Prompts",
  repeats: "Repeats",
  batch_size: "Batch size",
  "batch-size": "Batch size",
  seconds: "Seconds",
  methods: "Methods",
  axis: "Vary",
};

const OF_PROMPT = new Set(["task", "prompt"]);
export const SWITCHED_ON = "yes"; // a switch as text; an empty one is off

/** @type {Map<string, SettingRow>} */
const table = new Map();

// Once, before anything is made of it.
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

// Those that stand in the address, but for task and prompt: they have parameters of their own.
export function addressSettings() {
  return allSettings().filter(({ key, name }) => key && !OF_PROMPT.has(name));
}

// The numbers that every method takes: those with a slider come first.
export function plainNumbers() {
  const plain = allSettings().filter(({ bounds, part }) => bounds && part !== "method");
  return [...plain.filter(({ slider }) => slider), ...plain.filter(({ slider }) => !slider)];
}

// name -> default, as a field holds it.
export function defaults() {
  return Object.fromEntries(allSettings().map((setting) => [setting.name, setting.default]));
}

// ---- what a text may be

// "" where the text is what the setting may be, else what it must be. Menus are not looked at.
/**
 * @param {{ name: string, type?: string, bounds?: Bounds | null }} setting
 * @param {string} text
 */
export function breachOf({ name, type, bounds }, text) {
  if (type === "switch") return ["", SWITCHED_ON].includes(text) ? "" : `must be ${SWITCHED_ON} or empty`;
  if (name === "branching") return BRANCHING.test(text) ? "" : "must be whole numbers with commas, such as 3,2";
  return bounds ? numberBreach(bounds, text) : "";
}

// A number above 0 is at least `least`.
/**
 * @param {Bounds} bounds
 * @param {string} text
 */
export function numberBreach({ low, high, is_whole, excludes_low = false, excludes_high = false, least = 0 }, text) {
  const number = Number(text);
  const isNumber = is_whole ? WHOLE.test(text) : text.trim() !== "" && Number.isFinite(number);
  const isAbove = excludes_low ? number > low : number >= low;
  const isBelow = high === null || (excludes_high ? number < high : number <= high);
  if (isNumber && isAbove && number > 0 && number < least) return `must be 0 or from ${least} to ${high}`;
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

// As a clause behind a name: what is wrong with a text, and the text; "" where nothing is.
/**
 * @param {SettingRow} setting
 * @param {string} text
 */
export function problemOf(setting, text) {
  return got(breachOf(setting, text), text);
}

/**
 * @param {Bounds} bounds
 * @param {string} text
 */
export function numberProblem(bounds, text) {
  return got(numberBreach(bounds, text), text);
}

// Of a method's own option: a whole number within its bounds, or one of the few that there are; `least` is
// the text of the option `at_least`.
/**
 * @param {{ low: number, high: number, choices: number[], at_least?: string }} option
 * @param {string} text
 * @param {string} [least]
 */
export function optionProblem({ low, high, choices, at_least }, text, least = "") {
  if (choices.length) return choices.map(String).includes(text) ? "" : got(`must be one of ${choices.join(", ")}`, text);
  const isBelow = Number(text) < Number(least);
  return numberProblem({ low, high, is_whole: true }, text) || got(isBelow ? `must be at least ${at_least} = ${least}` : "", text);
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

// ---- words

// The setting that a sentence of the server is about, by the server's name of it.
/** @param {string} sentence */
export function settingNamed(sentence) {
  return sentence.split(/[^a-z_]/, 1)[0];
}

// A sentence of the server in the words of the form. Its first word may be any setting; further on, plain
// words are only words. What a person typed, behind "got", stays. `options` are the method's: {name, title}.
/**
 * @param {string} sentence
 * @param {{ name: string, title: string }[]} [options]
 */
export function labelled(sentence, options = []) {
  const end = sentence.indexOf(", got ");
  const [rule, rest] = end < 0 ? [sentence, ""] : [sentence.slice(0, end), sentence.slice(end)];
  const title = (/** @type {string} */ name) => titleOf(name) ?? options.find((option) => option.name === name)?.title ?? name;
  return rule.replace(/^[a-z_-]+(?= )/, title).replace(/\b[a-z]+_[a-z_]+\b/g, title) + rest;
}

/** @param {string} name */
function titleOf(name) {
  const setting = table.get(name);
  return (setting?.key && setting.title) || OTHER_TITLES[name];
}

// How tokens are drawn beside the temperature, such as ["top-k 40"]; what is off is left out.
/** @param {Record<string, any>} config */
export function cutWords(config) {
  const cuts = allSettings().filter(({ part, off }) => part === "sampling" && off !== null);
  return cuts.filter(({ name, off }) => (config[name] ?? off) !== off).map(({ name, word }) => `${word} ${config[name]}`);
}
