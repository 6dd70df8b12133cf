// The cards that answer a plan: whether speculation pays, its charts, its load, times and money.

import { ChartView } from "../shared/chart_view.js";
import { termView } from "../shared/term_view.js";
import { html } from "../shared/view.js";
import { isStale, lastArrivals, canBeSimulated, problemOf, sizedOf } from "./plan_state.js";
import { factsView, lengthWords, roomWords, servedWords, sizeTable } from "./size_view.js";

/**
 * @typedef {import("./plan_state.js").PlanState} PlanState
 * @typedef {{ theme: Theme, look: string }} Look
 * @typedef {{ measure: (input: HTMLInputElement) => void, compute: () => void }} LoadEvents
 */

/**
 * @param {PlanState} state
 * @param {PlanField[]} rows
 */
export function payCard(state, rows) {
  const size = sizedOf(state)?.size;
  return html`
    <section class="card answer" aria-labelledby="sv-serve-answer">
      <h2 id="sv-serve-answer">Does it pay?</h2>
      <p class="found" role="status">${answerWords(state, rows)}</p>
      <ul class=${pale("report serve-reasons", isStale(state))} aria-label="Why, and how sure"
        hidden=${!size?.reasons.length}>
        ${size?.reasons.map((/** @type {string} */ each) => html`<li>${each}</li>`)}
      </ul>
      <ul class=${pale("report", isStale(state))} aria-label="Warnings about this plan"
        hidden=${!size?.warnings.length}>
        ${size?.warnings.map((/** @type {string} */ each) => html`<li class="warning">${each}</li>`)}
      </ul>
      <dl class=${pale("serve-facts", isStale(state))} hidden=${size && !size.fits}>
        ${size && factsView(size)}
      </dl>
    </section>
  `;
}

/**
 * @param {PlanState} state
 * @param {PlanField[]} rows
 */
export function answerWords(state, rows) {
  const { answer } = state;
  if (answer.kind === "none") return "";
  if (answer.kind === "computing") return "Computing…";
  if (answer.kind === "refused") return `No answer yet. ${problemOf(state, rows).sentence}`;
  return answer.sized.size.answer;
}

/**
 * @param {PlanState} state
 * @param {Look} look
 */
export function planCharts(state, look) {
  const sized = sizedOf(state);
  const size = sized?.size;
  return html`
    <div class=${pale("inspect even", isStale(state))} hidden=${!size}>
      <article class="card chart-card" hidden=${!size?.fits}>
        <div class="chart-head">
          <h3>
            ${termView("Speedup", "speedup")} of whole requests, by requests at once${" "}
            <span class="hint">the circle is your plan</span>
          </h3>
        </div>
        <${ChartView} figure=${sized?.figures.batch}
          label="Speedup of whole requests by requests decoded at once, with the region where speculation loses"
          ...${look} />
        <p class="hint">${size && lengthWords(size)}</p>
      </article>
      <article class="card chart-card">
        <div class="chart-head">
          <h3>Memory of a ${size?.unit} <span class="hint">${size && roomWords(size)}</span></h3>
        </div>
        <${ChartView} figure=${sized?.figures.memory}
          label="The content of a card’s memory, and its limit" ...${look} />
        <ul class="legend parts" aria-label="What the bar holds">
          <li><i class="verify"></i>target</li>
          <li><i class="draft"></i>draft</li>
          <li><i class="cache"></i>${termView("cache", "cache")}</li>
          <li><i class="draft-cache"></i>draft’s cache</li>
          <li><i class="host"></i>activations</li>
        </ul>
      </article>
    </div>
  `;
}

const SIMULATION =
  "A simulation of one deployment: arrivals by chance around the mean, each for itself; 95 of 100 wait no longer than shown. The dashed line is your limit; where a line ends, the queue would grow without end.";

/**
 * @param {PlanState} state
 * @param {Look} look
 * @param {LoadEvents} on
 */
export function loadCard(state, look, on) {
  const { measured, measuredProblem, load } = state;
  const sized = sizedOf(state);
  const arrivals = lastArrivals(state);
  const sources = arrivals?.measured ?? [];
  const figures = arrivals?.figures ?? {};
  return html`
    <section class=${pale("card answer", isStale(state) || load.kind !== "simulated")}
      hidden=${!sized || !canBeSimulated(sized)} aria-labelledby="sv-serve-arrivals">
      <h2 id="sv-serve-arrivals">When requests come as they like</h2>
      <p class="hint">${SIMULATION}</p>
      ${measureRow(measured !== null, on)}
      <p class="error" role="alert" hidden=${!measuredProblem}>${measuredProblem}</p>
      <ul class="serve-assumed hint" aria-label="Measured times" hidden=${!sources.length}>
        ${sources.map((each) => html`<li>${each}</li>`)}
      </ul>
      <div class="inspect even">
        <article class="chart-card">
          <div class="chart-head"><h3>${termView("First token", "ttft")}</h3></div>
          <${ChartView} figure=${figures.first}
            label="Time to the first token that 95 of 100 requests stay below, by load"
            ...${look} />
        </article>
        <article class="chart-card">
          <div class="chart-head"><h3>Each further token</h3></div>
          <${ChartView} figure=${figures.token}
            label="Time of each further token that 95 of 100 requests stay below, by load"
            ...${look} />
        </article>
      </div>
      <ul class="legend parts" aria-label="Ways of decoding">
        <li><i class="line plain"></i>plain decoding</li>
        <li><i class="line always"></i>speculation</li>
        <li><i class="line switched"></i>speculation while it pays</li>
      </ul>
      <p class="hint" role="status">${loadWords(state)}</p>
    </section>
  `;
}

/**
 * @param {boolean} isMeasured
 * @param {LoadEvents} on
 */
function measureRow(isMeasured, on) {
  return html`
    <p class="row tight">
      <button
        type="button"
        class="chip"
        title="A file of load --json, of bench --batch-size … --json, or of a sweep over batch size"
        onClick=${(/** @type {any} */ { currentTarget }) =>
          currentTarget.parentElement.querySelector("input").click()}
      >
        Use measured times …
      </button>
      <button
        type="button"
        class="chip"
        hidden=${!isMeasured}
        onClick=${(/** @type {any} */ { currentTarget }) => {
          on.compute();
          currentTarget.previousElementSibling.focus(); // this button disappears
        }}
      >
        Back to computed times
      </button>
      <input type="file" aria-label="A file of measured times" accept=".json,.jsonl,.ndjson,.txt"
        hidden onChange=${(/** @type {any} */ { currentTarget }) => on.measure(currentTarget)} />
    </p>
  `;
}

/** @param {PlanState} state */
export function loadWords({ load }) {
  if (load.kind === "simulating") return "Simulating…";
  if (load.kind === "failed") return load.problem;
  return load.kind === "simulated" ? servedWords(load.arrivals.results, load.arrivals.load) : "";
}

/** @param {PlanState} state */
export function moneyCard(state) {
  const size = sizedOf(state)?.size;
  return html`
    <details class=${pale("card serve-fold", isStale(state))} hidden=${!size?.fits}>
      <summary><h2>Times and money</h2></summary>
      <div class="scroller" tabindex="0" role="group" aria-label="Times and money">
        ${size && sizeTable(size)}
      </div>
      <p class="hint">
        Times are for your <em>requests at once</em>. Hardware and costs are for the highest load at which both your limits are met; a batch job has no limits. Plain decoding needs no memory for a draft.
      </p>
    </details>
  `;
}

/**
 * @param {string} className
 * @param {boolean} isPale
 */
function pale(className, isPale) {
  return isPale ? `${className} is-stale` : className;
}
