// The state of the card that writes configurations of serving engines: its two forms, and what the
// server wrote for each.

const NONE = "none";
// fields about GPUs and weight formats, which are hidden if the engine has no option for them
const OF_MODELS = ["draft_device", "draft_tensor_parallel", "quantization", "draft_quantization"];
const UNREACHED = "The server cannot be reached.";

// A configuration in several formats. `forms` is empty if the server wrote none; `level` is the CSS
// class of the remarks.
/** @typedef {{ forms: Record<string, string>, remarks: string[], level: string }} Written */

/**
 * @typedef {{ typed: string, value: string, fate: string, now: string, why: string }} Change what became of a pasted flag
 * @typedef {{ kind: "none" } | { kind: "refused", problem: string } | { kind: "written", written: Written }} ConfigurationAnswer
 * @typedef {{ kind: "none" } | { kind: "refused", problem: string } | { kind: "written", written: Written, changes: Change[] }} TranslationAnswer
 */

// Which format of a configuration is shown, and whether it was copied.
/** @typedef {{ chosen: string, copying: "" | "copied" | "failed" }} Shown */

/**
 * @typedef {object} ConfigurationState
 * @property {string} engine
 * @property {string} wanted the method that the user chose, even if the engine does not have it
 * @property {Record<string, string>} values the content of each field, by its name
 * @property {ConfigurationAnswer} answer
 * @property {Shown} shown
 * @property {string} pasted
 * @property {string} pastedTo the engine in whose words the pasted text is written, or "" for its own
 * @property {boolean} isTranslating
 * @property {TranslationAnswer} translation
 * @property {Shown} translationShown
 */

/**
 * @param {EnginesOffer} offer
 * @returns {ConfigurationState}
 */
export function usualConfiguration({ engines, fields, forms }) {
  /** @type {Shown} */
  const shown = { chosen: forms[0].name, copying: "" };
  return {
    engine: engines[0].name,
    wanted: NONE,
    values: Object.fromEntries(fields.map(({ name }) => [name, ""])),
    answer: { kind: "none" },
    shown,
    pasted: "",
    pastedTo: "",
    isTranslating: false,
    translation: { kind: "none" },
    translationShown: shown,
  };
}

/**
 * @param {ConfigurationState} state
 * @param {Partial<Pick<ConfigurationState, "engine" | "wanted" | "pasted" | "pastedTo">>} chosen
 * @returns {ConfigurationState}
 */
export function chose(state, chosen) {
  return { ...state, ...chosen };
}

/**
 * @param {ConfigurationState} state
 * @param {string} name
 * @param {string} value
 * @returns {ConfigurationState}
 */
export function entered(state, name, value) {
  return { ...state, values: { ...state.values, [name]: value } };
}

// Fill the form with the configuration of a plan.
/**
 * @param {ConfigurationState} state
 * @param {Record<string, string>} planned
 * @returns {ConfigurationState}
 */
export function tookPlan(state, planned) {
  const values = Object.fromEntries(
    Object.keys(state.values).map((name) => [name, planned[name] ?? ""]),
  );
  return { ...state, values, wanted: planned.method };
}

// Take the server's answer; null means that the server did not answer.
/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 * @param {Reply | null} reply
 * @returns {ConfigurationState}
 */
export function configured(state, offer, reply) {
  const problem = errorOf(reply);
  if (problem) return { ...state, answer: { kind: "refused", problem } };
  const lacking = lackingWords(state, offer);
  const remarks = [...(lacking ? [lacking] : []), ...reply.remarks];
  const written = { forms: reply.forms, remarks, level: "warning" };
  const shown = { ...state.shown, copying: /** @type {const} */ ("") };
  return { ...state, answer: { kind: "written", written }, shown };
}

/**
 * @param {ConfigurationState} state
 * @returns {ConfigurationState}
 */
export function isTranslating(state) {
  return { ...state, isTranslating: true };
}

/**
 * @param {ConfigurationState} state
 * @param {Reply | null} reply
 * @returns {ConfigurationState}
 */
export function translated(state, reply) {
  const problem = errorOf(reply);
  const next = { ...state, isTranslating: false };
  if (problem) return { ...next, translation: { kind: "refused", problem } };
  const { forms, changes, problems, notes } = reply;
  const level = problems.length ? "problem" : "warning";
  const written = { forms, remarks: [...problems, ...notes], level };
  const translationShown = { ...state.translationShown, copying: /** @type {const} */ ("") };
  return { ...next, translation: { kind: "written", written, changes }, translationShown };
}

// Show another format of one of the two configurations, or say whether it was copied.
/**
 * @param {ConfigurationState} state
 * @param {"shown" | "translationShown"} which
 * @param {Partial<Shown>} change
 * @returns {ConfigurationState}
 */
export function showed(state, which, change) {
  return { ...state, [which]: { ...state[which], ...change } };
}

/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 */
export function engineOf({ engine }, { engines }) {
  return /** @type {EnginesOffer["engines"][number]} */ (
    engines.find(({ name }) => name === engine)
  );
}

// Return the method of the configuration: plain decoding if the engine lacks the chosen one.
/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 */
export function methodOf(state, offer) {
  const isOffered = engineOf(state, offer).methods.some(({ name }) => name === state.wanted);
  return isOffered ? state.wanted : NONE;
}

// Return a sentence if the engine lacks the chosen method, otherwise "".
/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 */
function lackingWords(state, offer) {
  if (methodOf(state, offer) === state.wanted) return "";
  const methods = offer.engines.flatMap((engine) => engine.methods);
  const title = methods.find(({ name }) => name === state.wanted)?.title;
  return `${engineOf(state, offer).title} cannot draft with ${title}: this is plain decoding.`;
}

// Return whether the chosen method uses a field. An empty field about GPUs or weights is also left
// out if the engine has no option for it.
/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 * @param {string} name
 */
export function hasField(state, offer, name) {
  const method = methodOf(state, offer);
  if (OF_MODELS.includes(name) && engineOf(state, offer).lacks.includes(name))
    if (!state.values[name]) return false;
  if (offer.of_draft.includes(name)) return method in offer.drafts;
  if (offer.of_method[name]) return offer.of_method[name] === method;
  return method !== NONE || !["draft_tokens", "schedule"].includes(name);
}

// Return the title of a field. That of the draft depends on the method.
/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 * @param {{ name: string, title: string }} field
 */
export function titleOf(state, offer, { name, title }) {
  return (name === "draft" && offer.drafts[methodOf(state, offer)]) || title;
}

// Return the server's error sentence with the title of its field, and the name of that field, or ""
// if the error is about no field.
/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 */
export function configurationProblem(state, offer) {
  if (state.answer.kind !== "refused") return { name: "", sentence: "" };
  const { problem } = state.answer;
  const named = problem.split(" ", 1)[0].replaceAll("-", "_");
  const wrong = offer.fields.find(({ name }) => name === named);
  if (!wrong) return { name: "", sentence: problem };
  return { name: wrong.name, sentence: problem.replace(/^\S+/, titleOf(state, offer, wrong)) };
}

// The requests for the server.
/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 */
export function configurationQuestion(state, offer) {
  const used = Object.entries(state.values).filter(([name]) => hasField(state, offer, name));
  return {
    engine: state.engine,
    fields: Object.fromEntries([...used, ["method", methodOf(state, offer)]]),
  };
}

// Return why the pasted text cannot be sent, or "".
/**
 * @param {ConfigurationState} state
 * @param {EnginesOffer} offer
 */
export function pastedProblem({ pasted: { length } }, { longest }) {
  return length > longest ? `the text must have at most ${longest} characters, got ${length}` : "";
}

/** @param {Reply | null} reply */
function errorOf(reply) {
  return reply ? (reply.error ?? "") : UNREACHED;
}
