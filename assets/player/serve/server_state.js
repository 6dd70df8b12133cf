// The state of the card that watches running serving engines: its form, what the engines count, and
// one text of each.

import { PREFIX } from "./plan_state.js";

// number of failed readings in a row before the card gives up; an engine that restarts does not
// answer for a while
const MOST_FAILURES = 5;
// Name of a field -> the parameter of the page's address that stores it. The server's key is never
// stored there.
const ADDRESSES = /** @type {const} */ ({ url: "server", plain: "plain" });
const LONGEST_ADDRESS = { url: 1000, plain: 500 };
const EXPECTED = `${PREFIX}speculates`; // parameter of the address: 1 if the servers are expected to speculate
const EXAMPLE = "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n";
const UNREACHED = "The server of this page cannot be reached.";

/**
 * @typedef {{ address: string, problem: string, cells: string[] }} ServerRow
 * @typedef {{ kept: object, restarts: number, facts: [string, string][], rows: ServerRow[], figures: Record<string, Figure>, absent: string[] }} Reading
 * @typedef {import("./server_texts.js").WrittenText} WrittenText
 */

// The course of watching. `url` is their address or addresses, and `said` are the sentences
// about them. `problem` of a watched engine is why the last reading failed, or "".
/**
 * @typedef {{ url: string, said: string[], reading: Reading }} Attached
 * @typedef {{ kind: "off" }
 *   | { kind: "attaching", url: string }
 *   | { kind: "refused", problem: string }
 *   | ({ kind: "watching", failures: number, problem: string } & Attached)
 *   | ({ kind: "stopped", problem: string } & Attached)} Watch
 */

// The texts that the engines at `urls` write, one after the other. `problem` is why the next one
// wrote none. `hasPlain` is true if the first engine is the one without drafts.
/** @typedef {{ urls: string[], hasPlain: boolean, written: WrittenText[], problem: string }} Texts */

/**
 * @typedef {object} ServerState
 * @property {string} url
 * @property {string} plain the address of a server without drafts, or ""
 * @property {string} key
 * @property {boolean} isExpected whether the servers are expected to speculate
 * @property {string} prompt
 * @property {Watch} watch
 * @property {Texts} texts
 */

/** @type {Texts} */
const NO_TEXTS = { urls: [], hasPlain: false, written: [], problem: "" };

/** @type {ServerState} */
export const SERVER = {
  url: "",
  plain: "",
  key: "",
  isExpected: false,
  prompt: EXAMPLE,
  watch: { kind: "off" },
  texts: NO_TEXTS,
};

/**
 * @param {ServerState} state
 * @param {Partial<Pick<ServerState, "url" | "plain" | "key" | "isExpected" | "prompt">>} change
 * @returns {ServerState}
 */
export function edited(state, change) {
  return { ...state, ...change };
}

/**
 * @param {ServerState} state
 * @param {URLSearchParams} given
 * @returns {ServerState}
 */
export function readServer(state, given) {
  const read = (/** @type {"url" | "plain"} */ name) =>
    (given.get(PREFIX + ADDRESSES[name]) ?? state[name]).slice(0, LONGEST_ADDRESS[name]);
  const isExpected = given.has(EXPECTED) ? given.get(EXPECTED) === "1" : state.isExpected;
  return { ...state, url: read("url"), plain: read("plain"), isExpected };
}

/**
 * @param {ServerState} state
 * @param {URL} url
 */
export function writeServer(state, { searchParams }) {
  for (const name of /** @type {("url" | "plain")[]} */ (["url", "plain"])) {
    const value = state[name].trim();
    // the part before an @ may be a password
    if (value && !value.includes("@")) searchParams.set(PREFIX + ADDRESSES[name], value);
    else searchParams.delete(PREFIX + ADDRESSES[name]);
  }
  if (state.isExpected) searchParams.set(EXPECTED, "1");
  else searchParams.delete(EXPECTED);
}

// Begin to attach. The texts belong to the servers of before.
/**
 * @param {ServerState} state
 * @returns {ServerState}
 */
export function attaching(state) {
  return { ...state, watch: { kind: "attaching", url: state.url.trim() }, texts: NO_TEXTS };
}

// Take the server's answer; null means that the server of this page did not answer.
/**
 * @param {ServerState} state
 * @param {Reply | null} reply
 * @returns {ServerState}
 */
export function attached(state, reply) {
  if (state.watch.kind !== "attaching") return state;
  const problem = errorOf(reply);
  if (problem) return { ...state, watch: { kind: "refused", problem } };
  const { sentences: said, ...reading } = reply;
  const { url } = state.watch;
  return { ...state, watch: { kind: "watching", url, said, reading, failures: 0, problem: "" } };
}

// Take a reading. After several failures in a row the card stops.
/**
 * @param {ServerState} state
 * @param {Reply | null} reply
 * @returns {ServerState}
 */
export function counted(state, reply) {
  const { watch } = state;
  if (watch.kind !== "watching") return state;
  const problem = errorOf(reply);
  if (!problem) return { ...state, watch: { ...watch, reading: reply, failures: 0, problem } };
  const failures = watch.failures + 1;
  if (failures < MOST_FAILURES) return { ...state, watch: { ...watch, failures, problem } };
  const { url, said, reading } = watch;
  return { ...state, watch: { kind: "stopped", url, said, reading, problem } };
}

// Stop. What was read stays.
/**
 * @param {ServerState} state
 * @returns {ServerState}
 */
export function stopped(state) {
  const { watch } = state;
  if (watch.kind === "attaching") return { ...state, watch: { kind: "off" } };
  if (watch.kind !== "watching") return state;
  const { url, said, reading } = watch;
  return { ...state, watch: { kind: "stopped", url, said, reading, problem: "" } };
}

// Return what is attached or was attached, or null.
/** @param {ServerState} state */
export function attachedOf({ watch }) {
  return watch.kind === "watching" || watch.kind === "stopped" ? watch : null;
}

// Return the error below the form, and whether it is about the address.
/** @param {ServerState} state */
export function serverProblem({ watch }) {
  const problem = watch.kind === "refused" || watch.kind === "stopped" ? watch.problem : "";
  return {
    sentence: problem.replace(/^url /, "Address "),
    isOfAddress: problem.startsWith("url "),
  };
}

// Begin to write. The server without drafts is the first one.
/**
 * @param {ServerState} state
 * @returns {ServerState}
 */
export function writing(state) {
  const plain = state.plain.trim();
  const urls = [plain, ...state.url.split(/[\s,]+/)].filter(Boolean);
  return { ...state, texts: { ...NO_TEXTS, urls, hasPlain: plain !== "" } };
}

// Return the server that writes now, or undefined.
/** @param {ServerState} state */
export function writerOf({ texts: { urls, written, problem } }) {
  return problem ? undefined : urls[written.length];
}

// Take the text of the server that writes. A refusal ends the writing.
/**
 * @param {ServerState} state
 * @param {Reply | null} reply
 * @returns {ServerState}
 */
export function wrote(state, reply) {
  const { texts } = state;
  const problem = errorOf(reply).replace(/^url /, `${writerOf(state)}: address `);
  if (problem) return { ...state, texts: { ...texts, problem } };
  return { ...state, texts: { ...texts, written: [...texts.written, reply] } };
}

/** @param {Reply | null} reply */
function errorOf(reply) {
  return reply ? (reply.error ?? "") : UNREACHED;
}
