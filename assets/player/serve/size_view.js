// What the server says of a plan, as facts, tables and words.

import { body, bodyRow, headRow } from "../lab/cells.js";
import { element } from "../shared/dom.js";
import { termButton } from "../shared/terms.js";

const POLICIES = [["plain", "plain decoding"], ["speculative", "speculation"], ["switched", "speculation while it pays"]];

/**
 * @param {HTMLElement} box
 * @param {any} size
 */
export function showFacts(box, size) {
  const { speculative, plain, goodput } = size;
  const facts = [
    [["draft length ", ["K", "draft_length"]], size.draft_length === size.best_length ? `${size.draft_length}, the best here` : `${size.draft_length}; best here: ${size.best_length}`],
    [[["tokens a round", "block_efficiency"]], size.tokens_per_round.toFixed(2)],
    [[["cost of a guess c", "cost_ratio"]], size.cost_ratio.toFixed(3)],
    [[["cost of verifying v", "verify_overhead"]], size.verification_overhead.toFixed(2)],
    [[["pays from α", "break_even"]], size.break_even_acceptance === null ? "never" : size.break_even_acceptance.toFixed(2)],
    [[["first token", "ttft"]], `${time(plain.first_token)} → ${time(speculative.first_token)}`],
    [["each further token"], `${time(plain.token)} → ${time(speculative.token)}`],
    [["within your limits"], goodput.plain.batch || goodput.speculative.batch ? `${rate(goodput.plain)} → ${rate(goodput.speculative)} requests/s` : "none"],
  ];
  box.replaceChildren(...facts.map(([name, value]) => fact(/** @type {any[]} */ (name), /** @type {string} */ (value))));
}

/**
 * @param {(string | string[])[]} name
 * @param {string} value
 */
function fact(name, value) {
  const made = element("div");
  const title = element("dt");
  title.append(...name.map((part) => (typeof part === "string" ? part : termButton(part[0], part[1]))));
  made.append(title, element("dd", "", value));
  return made;
}

/**
 * @param {HTMLElement} table
 * @param {any} size
 */
export function showTable(table, size) {
  const ways = ["plain", "speculative"];
  const of = (/** @type {(way: string) => string} */ cell) => ways.map(cell);
  const rows = [
    ["tokens a second, with the prefills", ...of((way) => size[way].tokens_per_second.toFixed(0))],
    ["each further token, with the prefills of others", ...of((way) => time(size[way].loaded_token))],
    ["GPUs, the draft’s own included", ...of((way) => String(size.money[way].gpus))],
    ["a million tokens of answers", ...of((way) => money(size.money[way].per_million_tokens))],
    ["GPUs for the load, and what they cost a day", ...of((way) => `${size.money[way].gpus_for_load}, ${money(size.money[way].per_day_for_load)}`)],
    ["most requests a second within both limits", ...of((way) => rate(size.goodput[way]))],
  ];
  table.replaceChildren(headRow(["", "plain decoding", "speculation"]), body(rows.map((row) => bodyRow(row))));
}

/** @param {any} size */
export function roomWords({ fits, largest_batch: largest, weights }) {
  const cache = `${Math.round(weights.cache_bytes_per_token / 1000).toLocaleString("en")} kB of cache a token`;
  if (!largest) return `no request fits; ${cache}`;
  return `${fits ? "" : "too much; "}room for ${largest.toLocaleString("en")} requests at once${largest === 1024 ? " or more" : ""}; ${cache}`;
}

// Requests a second within both limits, at the load that was typed.
/**
 * @param {any[]} results
 * @param {number} load
 */
export function servedWords(results, load) {
  const here = POLICIES.map(([policy, title]) => [title, results.find((each) => each.policy === policy && each.load === load)]);
  if (here.some(([, found]) => !found)) return "";
  const served = (/** @type {any} */ found) => (found.keeps_up ? `${Math.round(100 * found.within_limits)} %` : "not all: the queue grows");
  const words = here.map(([title, found]) => `${title}: ${served(found)}`);
  return `At ${load.toLocaleString("en")} requests a second, so many stay within both limits. ${words.join("; ")}.`;
}

/**
 * @param {Refs} refs
 * @param {any} trust
 * @param {string[]} assumed
 */
export function showTrust({ planAssumed, planGroups, planRuns, planSources }, trust, assumed) {
  planAssumed.replaceChildren(...assumed.map((/** @type {string} */ text) => element("li", "", text)));
  const groups = trust.groups.map((/** @type {any} */ each) => [each.group, String(each.count), percent(each.median_error), `${signed(each.lowest_error)} to ${signed(each.highest_error)}`]);
  planGroups.replaceChildren(headRow(["", "figures", "median error", "from"]), body(groups.map((/** @type {string[]} */ row) => bodyRow(row))));
  planRuns.replaceChildren(...trust.groups.map((/** @type {any} */ each) => runsOf(each, trust.runs)));
  planSources.replaceChildren(...Object.entries(trust.sources).map(([name, each]) => source(name, /** @type {any} */ (each))));
}

// A group's measurements, folded under its name.
/**
 * @param {{ group: string, count: number }} of
 * @param {any[]} runs
 */
function runsOf({ group, count }, runs) {
  const made = element("details");
  const table = element("table", "points");
  const ours = runs.filter((each) => each.group === group);
  const rows = ours.map((each) => [each.setting, digits(each.value), digits(each.computed), each.unit, signed(each.error), each.source]);
  table.append(headRow(["setting", "published", "computed", "", "error", "source"]), body(rows.map((row) => bodyRow(row))));
  const scroller = element("div", "scroller");
  scroller.tabIndex = 0;
  scroller.role = "group";
  scroller.ariaLabel = `Published beside computed: ${group}`;
  scroller.append(table);
  const notes = ours.filter((each) => each.note).map((each) => element("p", "hint", `${each.setting}, ${digits(each.value)} ${each.unit}: ${each.note}.`));
  made.append(element("summary", "", `${group} (${count})`), scroller, ...notes);
  return made;
}

/**
 * @param {string} name
 * @param {{ title: string, url: string, note: string }} source
 */
function source(name, { title, url, note }) {
  const made = element("li", "", `${name}: `);
  const link = element("a", "", title);
  Object.assign(link, { href: url, target: "_blank", rel: "noreferrer" });
  made.append(link, `. ${note}.`);
  return made;
}

/** @param {number} seconds */
function time(seconds) {
  const milliseconds = 1000 * seconds;
  if (milliseconds >= 10000) return `${seconds.toFixed(0)} s`;
  return `${milliseconds >= 100 ? milliseconds.toFixed(0) : milliseconds.toFixed(1)} ms`;
}

/** @param {{ batch: number, requests_per_second: number }} good */
function rate({ batch, requests_per_second: found }) {
  return batch ? found.toFixed(found < 10 ? 1 : 0) : "none";
}

/** @param {number} value */
function money(value) {
  return value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}

/** @param {number} value */
function digits(value) {
  return value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2);
}

/** @param {number} share */
function percent(share) {
  return `${Math.round(100 * share)} %`;
}

/** @param {number} share */
function signed(share) {
  return `${share < 0 ? "−" : "+"}${percent(Math.abs(share))}`;
}
