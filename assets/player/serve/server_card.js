// The card for running serving engines: whether they speculate, their counters over time, and one
// text of each.

import { ChartView } from "../shared/chart_view.js";
import { headView, rowView } from "../shared/table_view.js";
import { termView } from "../shared/term_view.js";
import { html, submitTo, valueTo } from "../shared/view.js";
import { attachedOf, serverProblem, writerOf } from "./server_state.js";
import { comparedTexts, textFacts } from "./server_texts.js";
import { factView } from "./size_view.js";

/**
 * @typedef {import("./server_state.js").ServerState} ServerState
 * @typedef {import("./server_state.js").Reading} Reading
 * @typedef {{ theme: Theme, look: string }} Look
 */

const ABOUT =
  "Attach to a running llama.cpp, vLLM or SGLang server: does it really speculate, and how many drafted tokens does it accept? specviz sends it one short request, then reads its counters every few seconds until you stop or leave the page. The metrics of SGLang are known only from its source code.";
const CLOSED =
  "This page is public and asks no servers for its visitors. Where you run specviz yourself it attaches to a llama.cpp or vLLM server and shows what of its drafts is accepted.";
const ALLOWED = "sv-watch-allowed"; // id of the list of addresses

/**
 * @typedef {object} ServerEvents
 * @property {(change: Partial<Pick<ServerState, "url" | "plain" | "key" | "isExpected" | "prompt">>) => void} edited
 * @property {() => void} settled is called when the user has finished a change that the address stores
 * @property {() => void} attach
 * @property {() => void} stop
 * @property {() => void} write
 */

/**
 * @param {ServerState} state
 * @param {WatchingOffer} offer
 * @param {Look} look
 * @param {ServerEvents} on
 */
export function serverCard(state, offer, look, on) {
  const isClosed = offer.allowed !== null && !offer.allowed.length;
  const attached = attachedOf(state);
  return html`
    <section class="card serve-engine" aria-labelledby="sv-watch-title">
      <h2 id="sv-watch-title">Your server</h2>
      <p class="hint">${isClosed ? CLOSED : ABOUT}</p>
      ${watchForm(state, offer, isClosed, on)}
      <p class="found engine-sentences" role="status">${watchSentence(state)}</p>
      <div class="engine-watched" hidden=${!attached}>
        ${attached && readingView(attached.reading, offer)}
        <p class="hint" role="status">${readingWords(state, offer)}</p>
        ${readingCharts(attached?.reading.figures ?? {}, look)}
        <p class="hint" hidden=${!attached?.reading.absent.length}>
          ${attached?.reading.absent.join(" ")}
        </p>
        ${textForm(state, offer, on)}
        <p class="found" role="status">${textsVerdict(state)}</p>
        <div class="inspect even">
          ${state.texts.written.map((written, at) => textView(state.texts.urls[at], written))}
        </div>
      </div>
    </section>
  `;
}

/**
 * @param {ServerState} state
 * @param {WatchingOffer} offer
 * @param {boolean} isClosed
 * @param {ServerEvents} on
 */
function watchForm(state, { allowed }, isClosed, on) {
  const { sentence, isOfAddress } = serverProblem(state);
  const { kind } = state.watch;
  const address = {
    type: "text",
    inputmode: "url",
    spellcheck: false,
    list: ALLOWED,
    "aria-describedby": "sv-watch-error",
    onChange: on.settled,
  };
  return html`
    <form class="serve-engine-form" novalidate autocomplete="off" aria-labelledby="sv-watch-title"
      hidden=${isClosed} onSubmit=${submitTo(on.attach)}>
      <div class="serve-engine-fields">
        <div class="field">
          <label for="sv-watch-url">Address <span class="hint">one, or several replicas</span></label>
          <input id="sv-watch-url" ...${address} maxlength="1000"
            placeholder="http://127.0.0.1:8000" aria-invalid=${isOfAddress ? "true" : null}
            value=${state.url}
            onInput=${valueTo((value) => on.edited({ url: value }))} />
        </div>
        <div class="field">
          <label for="sv-watch-plain">The same without drafts <span class="hint">optional</span></label>
          <input id="sv-watch-plain" ...${address} maxlength="500"
            placeholder="http://127.0.0.1:8001" value=${state.plain}
            onInput=${valueTo((value) => on.edited({ plain: value }))} />
        </div>
        <div class="field">
          <label for="sv-watch-key">Key <span class="hint">if it wants one; kept nowhere</span></label>
          <input id="sv-watch-key" type="password" maxlength="1000" autocomplete="off"
            value=${state.key}
            onInput=${valueTo((value) => on.edited({ key: value }))} />
        </div>
        <label class="switch">
          <input
            type="checkbox"
            checked=${state.isExpected}
            onChange=${(/** @type {any} */ { target }) => {
              on.edited({ isExpected: target.checked });
              on.settled();
            }}
          />
          ${" "}It should speculate
        </label>
        <p class="row">
          <button type="submit" class="secondary" disabled=${kind === "attaching"}>Attach</button>
          <button type="button" class="secondary"
            disabled=${kind !== "attaching" && kind !== "watching"} onClick=${on.stop}>
            Stop
          </button>
        </p>
      </div>
      <datalist id=${ALLOWED}>
        ${allowed?.map((each) => html`<option value=${each}></option>`)}
      </datalist>
      <p class="error" id="sv-watch-error" role="alert" hidden=${!sentence}>${sentence}</p>
    </form>
  `;
}

/** @param {ServerState} state */
export function watchSentence(state) {
  if (state.watch.kind === "attaching") return "Asking it for a short text …";
  return (attachedOf(state)?.said ?? []).map((each) => `${each}.`).join("\n");
}

/**
 * @param {Reading} reading
 * @param {WatchingOffer} offer
 */
function readingView({ facts, rows }, { heads }) {
  return html`
    <dl class="serve-facts">${facts.map(([name, value]) => factView([name], value))}</dl>
    <div class="scroller" tabindex="0" role="group" aria-label="Each server separately"
      hidden=${rows.length < 2}>
      <table class="points">
        ${headView(["server", ...heads])}
        <tbody>
          ${rows.map((row) => serverRow(row, heads.length))}
        </tbody>
      </table>
    </div>
  `;
}

/**
 * @param {import("./server_state.js").ServerRow} row
 * @param {number} columns
 */
function serverRow({ address, problem, cells }, columns) {
  if (!problem) return rowView([address, ...cells]);
  return html`
    <tr class="is-gone">
      <th class="name" scope="row">${address}</th>
      <td class="number" colspan=${columns}>no reading: ${problem}</td>
    </tr>
  `;
}

/**
 * @param {ServerState} state
 * @param {WatchingOffer} offer
 */
export function readingWords({ watch }, { every_seconds: seconds }) {
  if (watch.kind === "stopped") return "Stopped: the charts show what was read.";
  if (watch.kind !== "watching") return "";
  if (watch.problem) return `No reading: ${watch.problem}. It is tried again.`;
  const { restarts, rows } = watch.reading;
  const what = rows.length < 2 ? "The engine was" : "Engines were";
  const times = restarts === 1 ? "once" : `${restarts} times`;
  const again = restarts ? ` ${what} started again ${times} meanwhile.` : "";
  return `The counters are read every ${seconds} seconds. They include the requests of other users.${again}`;
}

const CHARTS = [
  {
    name: "draft_utilization",
    title: html`Accepted of drafted <span class="hint">of each reading</span>`,
    label: "Share of drafted tokens that the engine accepted, over time",
  },
  {
    name: "positions",
    title: html`Accepted, by guess <span class="hint">since you attached</span>`,
    label: "Share of drafts accepted up to each guess",
  },
  {
    name: "length",
    title: html`${termView("Tokens a forward", "block_efficiency")} <span class="hint">of each reading</span>`,
    label: "Tokens that a forward of the target brought, over time",
  },
  {
    name: "rate",
    title: html`Tokens a second <span class="hint">of all requests</span>`,
    label: "Tokens that the engine wrote a second, over time",
  },
  {
    name: "first",
    title: html`${termView("First token", "ttft")} <span class="hint">milliseconds, mean of each reading</span>`,
    label: "Milliseconds until the first token of a request, over time",
  },
  {
    name: "requests",
    title: "Requests at once",
    label: "Requests that run and that wait, over time",
    legend: html`
      <ul class="legend parts" aria-label="Requests">
        <li><i class="line always"></i>running</li>
        <li><i class="line plain"></i>waiting</li>
      </ul>
    `,
  },
  {
    name: "cache",
    title: html`${termView("Cache", "cache")} in use`,
    label: "Share of the cache that is taken, over time",
  },
];

// A chart whose counters the engine lacks is hidden.
/**
 * @param {Record<string, Figure>} figures
 * @param {Look} look
 */
function readingCharts(figures, look) {
  return html`
    <div class="inspect even">
      ${CHARTS.map(
        ({ name, title, label, legend }) => html`
          <article key=${name} class="chart-card" hidden=${!figures[name]}>
            <div class="chart-head"><h3>${title}</h3></div>
            <${ChartView} figure=${figures[name]} label=${label} ...${look} />
            ${legend}
          </article>
        `,
      )}
    </div>
  `;
}

/**
 * @param {ServerState} state
 * @param {WatchingOffer} offer
 * @param {ServerEvents} on
 */
function textForm(state, { tokens, longest }, on) {
  const { problem } = state.texts;
  return html`
    <form class="serve-engine-form" novalidate autocomplete="off" aria-label="A text of your own"
      onSubmit=${submitTo(on.write)}>
      <div class="field">
        <label for="sv-watch-text">
          Ask it something${" "}<span class="hint">up to ${tokens} tokens, at temperature 0</span>
        </label>
        <textarea id="sv-watch-text" rows="5" spellcheck=${false} maxlength=${longest}
          aria-describedby="sv-text-error" value=${state.prompt}
          onInput=${valueTo((value) => on.edited({ prompt: value }))}></textarea>
      </div>
      <p>
        <button type="submit" class="secondary" disabled=${writerOf(state) !== undefined}>Send</button>
      </p>
      <p class="error" id="sv-text-error" role="alert" hidden=${!problem}>${problem}</p>
    </form>
  `;
}

// Compare the text with that of the server without drafts, if there are exactly these two.
/** @param {ServerState} state */
export function textsVerdict(state) {
  const { urls, written, hasPlain } = state.texts;
  if (writerOf(state)) return "Writing …";
  const isPair = hasPlain && urls.length === 2 && written.length === 2;
  return isPair ? comparedTexts(written[0], written[1]) : "";
}

/**
 * @param {string} url
 * @param {import("./server_texts.js").WrittenText} written
 */
function textView(url, written) {
  return html`
    <article class="chart-card">
      <h3>${url}</h3>
      <p class="hint">${textFacts(written)}</p>
      <pre class="engine-text" tabindex="0">${written.text}</pre>
    </article>
  `;
}
