// The state of a deployment plan: what its form contains, and what the server answered. The fields
// are the rows of the server's table (specviz/sizing/serving_plan.py).

import { brief } from "../shared/settings.js";

export const PREFIX = "serve-"; // prefix of the page's parameters in the address
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
export const MODELS = ["target", "draft"];
export const OWN = "own"; // menu value for a model that the user names, by its name on the Hub or by its config.json
const LONGEST_NAME = 96; // longest name of a model on the Hub
const LONGEST_VALUE = 40;
const UNREACHED = "The server cannot be reached.";

/**
 * @typedef {{ size: any, figures: Record<string, Figure>, configuration: Record<string, string>, isMeasured: boolean }} Sized what the server computed for a plan, and whether from measured times
 * @typedef {{ results: any[], load: number, measured: string[], figures: Record<string, Figure> }} Arrivals what it simulated for its load
 */

// The answer about the plan. `last` is an older result, which is shown pale.
/**
 * @typedef {{ kind: "none" }
 *   | { kind: "computing", last: Sized | null }
 *   | { kind: "refused", problem: string, last: Sized | null }
 *   | { kind: "answered", sized: Sized }} PlanAnswer
 */

// The answer about the plan's load of requests.
/**
 * @typedef {{ kind: "none", last: Arrivals | null }
 *   | { kind: "simulating", last: Arrivals | null }
 *   | { kind: "failed", problem: string, last: Arrivals | null }
 *   | { kind: "simulated", arrivals: Arrivals }} LoadAnswer
 */

/**
 * @typedef {object} PlanState
 * @property {Record<string, string>} values the content of each field, by its name
 * @property {Record<string, string>} configs for each of MODELS, the name or config.json of the user's own model
 * @property {boolean} isMoreOpen whether the rarely needed fields are shown
 * @property {string[]} linkProblems what the page could not read in its address
 * @property {{ name: string, text: string } | null} measured a file with the user's own measured times
 * @property {string} measuredProblem why the server refused such a file
 * @property {PlanAnswer} answer
 * @property {LoadAnswer} load
 */

/**
 * @param {PlanField[]} rows
 * @returns {PlanState}
 */
export function usualPlan(rows) {
  return {
    values: Object.fromEntries(rows.map(({ name, default: usual }) => [name, usual])),
    configs: { target: "", draft: "" },
    isMoreOpen: false,
    linkProblems: [],
    measured: null,
    measuredProblem: "",
    answer: { kind: "none" },
    load: { kind: "none", last: null },
  };
}

/** @param {{ name: string }} row */
export function isFirst({ name }) {
  return FIRST.includes(name);
}

// Fill the form from the parameters of an address, and list the invalid ones.
/**
 * @param {PlanState} state
 * @param {PlanField[]} rows
 * @param {URLSearchParams} given
 * @returns {PlanState}
 */
export function filledIn(state, rows, given) {
  const values = { ...state.values };
  const configs = { ...state.configs };
  const linkProblems = [];
  for (const { name, title, choices, default: usual } of rows) {
    const text = given.get(PREFIX + name) ?? usual;
    if (MODELS.includes(name) && text.includes("/") && text.length <= LONGEST_NAME) {
      configs[name] = text;
      values[name] = OWN;
      continue;
    }
    const isOffered = !choices.length || choices.some((each) => each.name === text);
    const isSound = isOffered && text.length <= LONGEST_VALUE;
    if (!isSound) linkProblems.push(`${title} cannot be “${brief(text)}”`);
    values[name] = isSound ? text : usual;
  }
  const isMoreOpen = rows.some((row) => !isFirst(row) && values[row.name] !== row.default);
  return { ...state, values, configs, linkProblems, isMoreOpen };
}

/**
 * @param {PlanState} state
 * @param {string} name
 * @param {string} value
 * @returns {PlanState}
 */
export function typed(state, name, value) {
  return { ...state, values: { ...state.values, [name]: value } };
}

/**
 * @param {PlanState} state
 * @param {string} model
 * @param {string} text
 * @returns {PlanState}
 */
export function named(state, model, text) {
  return { ...state, configs: { ...state.configs, [model]: text } };
}

/**
 * @param {PlanState} state
 * @param {boolean} isMoreOpen
 * @returns {PlanState}
 */
export function unfolded(state, isMoreOpen) {
  return isMoreOpen === state.isMoreOpen ? state : { ...state, isMoreOpen };
}

// Use a file of measured times, or computed times if it is null.
/**
 * @param {PlanState} state
 * @param {{ name: string, text: string } | null} measured
 * @param {string} [measuredProblem]
 * @returns {PlanState}
 */
export function measuredBy(state, measured, measuredProblem = "") {
  return { ...state, measured, measuredProblem };
}

// The server takes long to answer: what is shown belongs to an older plan.
/**
 * @param {PlanState} state
 * @returns {PlanState}
 */
export function isComputing(state) {
  return { ...state, answer: { kind: "computing", last: sizedOf(state) } };
}

// Take the server's answer; null means that the server did not answer.
/**
 * @param {PlanState} state
 * @param {PlanField[]} rows
 * @param {Reply | null} reply
 * @returns {PlanState}
 */
export function answered(state, rows, reply) {
  const problem = reply ? reply.error : UNREACHED;
  const last = lastArrivals(state);
  if (isOfMeasured(problem))
    return measuredBy(state, null, problem.replace(/^measured/, "The file"));
  if (problem) {
    const row = rowOf(problem, rows);
    return {
      ...state,
      answer: { kind: "refused", problem, last: sizedOf(state) },
      load: state.load.kind === "simulating" ? { kind: "none", last } : state.load,
      isMoreOpen: state.isMoreOpen || (row !== undefined && !isFirst(row)),
    };
  }
  const { size, figures, configuration } = reply;
  const sized = { size, figures, configuration, isMeasured: state.measured !== null };
  const kind = canBeSimulated(sized) ? "simulating" : "none";
  return { ...state, answer: { kind: "answered", sized }, load: { kind, last } };
}

// Return whether an error is about the file of measured times. The plan is then computed without it.
/** @param {string | undefined} problem */
export function isOfMeasured(problem) {
  return problem?.startsWith("measured ") ?? false;
}

// Take the server's answer about the load.
/**
 * @param {PlanState} state
 * @param {Reply | null} reply
 * @returns {PlanState}
 */
export function simulated(state, reply) {
  const last = lastArrivals(state);
  if (!reply) return { ...state, load: { kind: "failed", problem: UNREACHED, last } };
  if (reply.error)
    return { ...state, load: { kind: "failed", problem: `Not simulated: ${reply.error}`, last } };
  const { results, load, measured, figures } = reply;
  return { ...state, load: { kind: "simulated", arrivals: { results, load, measured, figures } } };
}

// Return the shown size of the plan, or null if there is none yet.
/** @param {PlanState} state */
export function sizedOf({ answer }) {
  if (answer.kind === "answered") return answer.sized;
  return answer.kind === "none" ? null : answer.last;
}

// Return the shown simulation of the load, or null if there is none yet.
/** @param {PlanState} state */
export function lastArrivals({ load }) {
  return load.kind === "simulated" ? load.arrivals : load.last;
}

// Return whether the shown results belong to an older plan.
/** @param {PlanState} state */
export function isStale({ answer: { kind } }) {
  return kind === "computing" || kind === "refused";
}

// Return whether the server can simulate the plan's load. A plan that does not fit into memory has
// no times; if times were measured, the engine had enough memory.
/** @param {Sized} sized */
export function canBeSimulated({ size, isMeasured }) {
  return size.fits || isMeasured;
}

// Return the configuration of the plan, or null if no plan fits.
/** @param {PlanState} state */
export function plannedConfiguration(state) {
  return state.answer.kind === "refused" ? null : (sizedOf(state)?.configuration ?? null);
}

// Return the server's error sentence with the title of its field, and the name of that field, or ""
// if the error is about no field.
/**
 * @param {PlanState} state
 * @param {PlanField[]} rows
 */
export function problemOf({ answer }, rows) {
  if (answer.kind !== "refused") return { name: "", sentence: "" };
  const { problem } = answer;
  const row = rowOf(problem, rows);
  if (!row) return { name: "", sentence: problem };
  return { name: row.name, sentence: problem.replace(row.name, row.title) };
}

/**
 * @param {string} sentence
 * @param {PlanField[]} rows
 */
function rowOf(sentence, rows) {
  const [name] = sentence.split(" ", 1);
  return rows.find((each) => each.name === name);
}

// The request for the server.
/** @param {PlanState} state */
export function planQuestion({ values, configs, measured }) {
  const plan = Object.fromEntries(
    Object.entries(values).map(([name, value]) => [name, value.trim()]),
  );
  const own = MODELS.filter((name) => plan[name] === OWN);
  return {
    plan,
    ...Object.fromEntries(own.map((name) => [`${name}_config`, configs[name]])),
    ...(measured ? { measured } : {}),
  };
}

// Write the fields that are not at their defaults into an address. A link contains the name of a
// model on the Hub, but never a pasted configuration.
/**
 * @param {PlanState} state
 * @param {PlanField[]} rows
 * @param {URL} url
 */
export function writePlan({ values, configs }, rows, url) {
  for (const { name, default: usual } of rows) {
    let value = values[name].trim();
    if (value === OWN) value = hubName(configs[name]) || usual;
    if (value === usual) url.searchParams.delete(PREFIX + name);
    else url.searchParams.set(PREFIX + name, value);
  }
}

// Return what the page shows and its link lacks.
/** @param {PlanState} state */
export function unlinked({ values, configs, measured }) {
  const isPasted = MODELS.some((name) => values[name] === OWN && !hubName(configs[name]));
  return [
    ...(isPasted ? ["the pasted configuration"] : []),
    ...(measured ? ["the measured times"] : []),
  ];
}

// Return the name of the user's model, or "" if the text is a configuration.
/** @param {string} text */
function hubName(text) {
  const name = text.trim();
  return name.includes("/") && !isConfig(name) && name.length <= LONGEST_NAME ? name : "";
}

/** @param {string} text */
export function isConfig(text) {
  return text.trimStart().startsWith("{");
}
