// The server's results for a plan, as facts, tables and sentences.

import { headView, rowView } from "../shared/table_view.js";
import { termView } from "../shared/term_view.js";
import { html } from "../shared/view.js";

const POLICIES = [
  ["plain", "plain decoding"],
  ["speculative", "speculation"],
  ["switched", "speculation while it pays"],
];

// The main results. Results for whole requests come first; results per token say so.
/** @param {any} size */
export function factsView(size) {
  const { speculative: fast, plain } = size;
  const both = (/** @type {(way: any) => string} */ cell) => `${cell(plain)} → ${cell(fast)}`;
  const facts = [
    [["whole request"], `${both((way) => time(way.request))} (${gain(size.request_speedup)})`],
    [["tokens per second"], both((way) => way.tokens_per_second.toFixed(0))],
    [
      ["highest load in requests per second, with 95 % within both limits"],
      carried(size).join(" → "),
    ],
    [
      [`${isPriced(size) ? size.currency : `${size.unit}-hours`} per million tokens at that load`],
      perMillion(size).join(" → "),
    ],
    [["each further token"], both((way) => time(way.loaded_token))],
    [[["first token", "ttft"]], both((way) => time(way.first_token))],
    [
      ["draft length ", ["K", "draft_length"]],
      size.draft_length === size.best_length
        ? `${size.draft_length}, ${size.request_speedup < 1 ? "the one that loses least" : "the best for this plan"}`
        : `${size.draft_length}; the best for this plan is ${size.best_length}`,
    ],
    [["speedup without prompts"], gain(size.speedup)],
    [[["acceptance rate α", "acceptance_rate"]], size.acceptance.toFixed(2)],
    [[["draft utilization", "draft_utilization"]], size.draft_utilization.toFixed(2)],
    [[["tokens per target forward τ", "block_efficiency"]], size.tokens_per_round.toFixed(2)],
    [[["cost of a guess c", "cost_ratio"]], size.cost_ratio.toFixed(3)],
    [[["cost of checking v", "verify_overhead"]], size.verification_overhead.toFixed(2)],
    [
      [["break-even α with this K", "break_even"]],
      size.break_even_acceptance === null
        ? "never"
        : size.break_even_acceptance < 0.005
          ? "any rate"
          : size.break_even_acceptance.toFixed(2),
    ],
  ];
  return facts.map(([name, value]) =>
    factView(/** @type {(string | string[])[]} */ (name), /** @type {string} */ (value)),
  );
}

/**
 * @param {(string | string[])[]} name texts, and terms as [text, key]
 * @param {string} value
 */
export function factView(name, value) {
  const title = name.map((part) => (typeof part === "string" ? part : termView(part[0], part[1])));
  return html`<div><dt>${title}</dt><dd>${value}</dd></div>`;
}

// Say which draft length K is best for each number of concurrent requests that fits into memory. If
// drafts would slow the server down, the best choice is plain decoding.
/** @param {{ lengths: { first: number, last: number, K: number }[], largest_batch: number }} size */
export function lengthWords({ lengths, largest_batch: most }) {
  const all = lengths.at(-1)?.last ?? 0;
  const until = most || all; // if not even one request fits, show the lengths that more memory would allow
  const shown = lengths
    .filter(({ first }) => first <= until)
    .map((each) => ({ ...each, last: Math.min(each.last, until) }));
  const ranges = shown.map(
    ({ first, last, K }) =>
      `${K ? `K = ${K}` : "none"} with ${first === last ? first : `${first} to ${last}`}`,
  );
  return `Best draft length by the number of requests at once: ${ranges.join(", ")}.${until < all ? " More requests do not fit." : ""}`;
}

// All times and costs of both ways of decoding, as a table.
/** @param {any} size */
export function sizeTable(size) {
  /** @type {(name: string, cell: (way: any) => string) => string[]} */
  const row = (name, cell) => [name, cell(size.plain), cell(size.speculative)];
  const { plain, currency, unit } = size;
  const rows = [
    row("a whole request", (way) => time(way.request)),
    row("tokens per second", (way) => way.tokens_per_second.toFixed(0)),
    row("each further token, including the prefills of other requests", (way) =>
      time(way.loaded_token),
    ),
    row(
      "largest number of requests at once within both limits",
      (way) =>
        `${way.batch_within_limits.toLocaleString("en")}${way.batch_within_limits === way.seats && way.seats < way.largest_batch ? ", the most that the engine runs at once" : ""}`,
    ),
    [
      "highest load in requests per second (random arrivals, 95 % within both limits)",
      ...carried(size),
    ],
    row(`${unit}s of a deployment, including those of the draft`, (way) => String(way.cards)),
    row(`${unit}s for the load`, (way) => way.cards_for_load ?? "none: a limit is not met"),
    [
      `${unit}-hours per million tokens of answers, at the highest load`,
      ...amounts(size, "card_hours_per_million"),
    ],
    ...(plain.money_per_million === null
      ? []
      : [
          [
            `${currency} per million tokens of answers, at the highest load`,
            ...amounts(size, "money_per_million"),
          ],
        ]),
    ...(plain.money_a_day_for_load === null
      ? []
      : [row(`${currency} per day for the load`, (way) => amount(way.money_a_day_for_load))]),
    ...(plain.job_seconds === null
      ? []
      : [
          row("batch job", (way) =>
            way.job_seconds === null
              ? "–"
              : `${duration(way.job_seconds)}, ${way.job_batch.toLocaleString("en")} at once`,
          ),
        ]),
    ...(plain.job_money === null
      ? []
      : [row(`${currency} for the batch job`, (way) => amount(way.job_money))]),
  ];
  return html`
    <table class="points">
      ${headView(["", "plain decoding", "speculation"])}
      <tbody>
        ${rows.map(rowView)}
      </tbody>
    </table>
  `;
}

/** @param {any} size */
export function roomWords({ fits, largest_batch: largest, weights }) {
  const cache = `${Math.round(weights.cache_bytes_per_token / 1000).toLocaleString("en")} kB of the target’s cache per token`;
  if (!largest) return `not enough memory for a single request; ${cache}`;
  return `${fits ? "" : "not enough memory for the plan; "}memory for ${largest.toLocaleString("en")} requests at once${largest === 1024 ? " or more" : ""}; ${cache}`;
}

// Return the shares of requests that stay within both limits, at the load that the user typed.
/**
 * @param {any[]} results
 * @param {number} load
 */
export function servedWords(results, load) {
  const here = POLICIES.map(([policy, title]) => [
    title,
    results.find((each) => each.policy === policy && each.load === load),
  ]);
  if (here.some(([, found]) => !found)) return "";
  const served = (/** @type {any} */ found) =>
    found.keeps_up ? `${Math.round(100 * found.within_limits)} %` : "the queue grows without end";
  const words = here.map(([title, found]) => `${title}: ${served(found)}`);
  return `At ${load.toLocaleString("en")} requests per second, the following shares of the requests stay within both limits. ${words.join("; ")}.`;
}

// The card that compares computed values with published ones.
/**
 * @param {any} trust
 * @param {string[]} assumed what the server assumed about the plan
 */
export function trustView({ sentence, groups, runs, sources }, assumed) {
  return html`
    <details class="card serve-fold">
      <summary><h2>How far to trust this</h2></summary>
      <p class="hint">${sentence}</p>
      <ul class="serve-assumed">
        ${assumed.map((text) => html`<li>${text}</li>`)}
      </ul>
      <div class="scroller" tabindex="0" role="group" aria-label="Errors by kind of measurement">
        <table class="points">
          ${headView(["", "figures", "median error", "from"])}
          <tbody>
            ${groups.map((/** @type {any} */ each) => rowView(groupCells(each)))}
          </tbody>
        </table>
      </div>
      <div class="serve-runs">
        ${groups.map((/** @type {any} */ each) => groupRuns(each, runs))}
      </div>
      <ul class="serve-assumed hint">
        ${Object.entries(sources).map(([name, each]) => sourceView(name, /** @type {any} */ (each)))}
      </ul>
    </details>
  `;
}

/** @param {any} group */
function groupCells({
  group,
  count,
  median_error: median,
  lowest_error: low,
  highest_error: high,
}) {
  return [group, String(count), percent(median), `${signed(low)} to ${signed(high)}`];
}

// The measurements of one group as a folded table.
/**
 * @param {{ group: string, count: number }} of
 * @param {any[]} runs
 */
function groupRuns({ group, count }, runs) {
  const ours = runs.filter((each) => each.group === group);
  const cells = (/** @type {any} */ { setting, value, computed, unit, error, source }) => [
    ...[setting, digits(value), digits(computed)],
    ...[unit, signed(error), source],
  ];
  return html`
    <details>
      <summary>${group} (${count})</summary>
      <div class="scroller" tabindex="0" role="group"
        aria-label="Published and computed values: ${group}">
        <table class="points">
          ${headView(["setting", "published", "computed", "", "error", "source"])}
          <tbody>
            ${ours.map((each) => rowView(cells(each)))}
          </tbody>
        </table>
      </div>
      ${ours.filter(({ note }) => note).map(noteView)}
    </details>
  `;
}

/** @param {any} run */
function noteView({ setting, value, unit, note }) {
  return html`<p class="hint">${setting}, ${digits(value)} ${unit}: ${note}.</p>`;
}

/**
 * @param {string} name
 * @param {{ title: string, url: string, note: string }} source
 */
function sourceView(name, { title, url, note }) {
  const link = html`<a href=${url} target="_blank" rel="noreferrer">${title}</a>`;
  return html`<li>${name}: ${link}. ${note}.</li>`;
}

/** @param {number} seconds */
function time(seconds) {
  const milliseconds = 1000 * seconds;
  if (seconds >= 1) return `${seconds.toFixed(seconds >= 10 ? 0 : 1)} s`;
  return `${milliseconds >= 100 ? milliseconds.toFixed(0) : milliseconds.toFixed(1)} ms`;
}

/** @param {any} size */
function carried({ plain, speculative: fast }) {
  const ways = [plain, fast];
  const texts = apart(
    plain.carried_requests,
    fast.carried_requests,
    plain.carried_requests < 100 ? 1 : 0,
  );
  return texts.map((text, at) => (ways[at].carried_requests ? text : "none"));
}

// Write two numbers with as many digits as are needed to show their difference. `apart` of
// specviz/sizing/sizing_words.py is the same rule in Python.
/**
 * @param {number} first
 * @param {number} second
 * @param {number} least smallest number of decimals
 */
export function apart(first, second, least) {
  const difference = Math.abs(first - second);
  let places = least;
  const seen = () => Math.abs(Number(first.toFixed(places)) - Number(second.toFixed(places)));
  if (difference > 1e-3 * Math.max(Math.abs(first), Math.abs(second)))
    while (Math.abs(seen() / difference - 1) > 0.25) places += 1;
  return [first, second].map((value) =>
    value.toLocaleString("en", { minimumFractionDigits: places, maximumFractionDigits: places }),
  );
}

/** @param {any} size */
function isPriced({ plain, speculative }) {
  return plain.money_per_million !== null || speculative.money_per_million !== null;
}

/** @param {any} size */
function perMillion(size) {
  return amounts(size, isPriced(size) ? "money_per_million" : "card_hours_per_million");
}

/**
 * @param {any} size
 * @param {string} name
 */
function amounts({ plain, speculative: fast }, name) {
  const values = [plain[name], fast[name]];
  return values.includes(null) ? values.map(amount) : apart(values[0], values[1], 2);
}

/** @param {number | null} value */
function amount(value) {
  if (value === null) return "–";
  return value.toLocaleString("en", {
    minimumFractionDigits: 2,
    maximumFractionDigits: value < 0.1 ? 4 : 2,
  });
}

/** @param {number | null} seconds */
function duration(seconds) {
  if (seconds === null) return "–";
  if (seconds >= 3600) return `${amount(seconds / 3600)} h`;
  return seconds >= 60 ? `${(seconds / 60).toFixed(1)} min` : time(seconds);
}

/** @param {number} value */
function gain(value) {
  return `${value.toFixed(value >= 1.2 ? 1 : 2)}×`;
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
