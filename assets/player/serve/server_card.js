// The card for running serving engines: whether they speculate, their counters over time, and one
// text of each.

import { body, bodyRow, headRow } from "../lab/cells.js";
import { Chart } from "../shared/charts.js";
import { element, option, setText } from "../shared/dom.js";
import { markWrong } from "../shared/field_errors.js";
import { PREFIX } from "./plan_form.js";
import { comparedTexts, textFacts } from "./server_texts.js";

// number of failed readings in a row before the card gives up; an engine that restarts does not
// answer for a while
const MOST_FAILURES = 5;
/** @type {Record<string, string>} */
const CHARTS = {
  draft_utilization: "watchAcceptance",
  positions: "watchPositions",
  length: "watchLength",
  rate: "watchRate",
  first: "watchFirst",
  requests: "watchRequests",
  cache: "watchCache",
};
// Name of a field -> the parameter of the page's address that stores it. The server's key is never
// stored there.
const ADDRESSES = { server: "watchUrl", plain: "watchPlain" };
const EXPECTED = `${PREFIX}speculates`; // parameter of the address: 1 if the servers are expected to speculate
const EXAMPLE = "def add(a, b):\n    return a + b\n\n\ndef subtract(a, b):\n";

export class ServerCard {
  /**
   * @param {Refs} refs
   * @param {WatchingOffer} offer
   * @param {(name: string, question: object) => Promise<any>} ask
   * @param {Theme} theme
   * @param {() => void} onChange is called when an address of a server changes
   */
  constructor(refs, offer, ask, theme, onChange) {
    this.refs = refs;
    this.offer = offer;
    this.ask = ask;
    /** @type {Record<string, Chart>} */
    this.charts = Object.fromEntries(
      Object.entries(CHARTS).map(([name, ref]) => [name, new Chart(refs[ref], theme)]),
    );
    /** @type {Record<string, Figure>} */
    this.figures = {};
    /** @type {object | null} the last reading, which the next question sends along */
    this.kept = null;
    this.attached = ""; // the addresses of the watched servers
    this.turn = 0; // increases with every start and stop; answers to older requests are ignored
    this.failures = 0;
    refs.watchAllowed.append(...(offer.allowed ?? []).map((address) => option(address, "")));
    refs.writtenPrompt.value = EXAMPLE;
    refs.writtenPrompt.maxLength = offer.longest;
    setText(refs.writtenHint, `up to ${offer.tokens} tokens, at temperature 0`);
    refs.watchForm.addEventListener(
      "submit",
      (/** @type {Event} */ event) => (event.preventDefault(), this.attach()),
    );
    for (const ref of [...Object.values(ADDRESSES), "watchExpected"])
      refs[ref].addEventListener("change", onChange);
    refs.watchStop.addEventListener("click", () => this.stop());
    refs.writtenForm.addEventListener(
      "submit",
      (/** @type {Event} */ event) => (event.preventDefault(), this.write()),
    );
    const isClosed = offer.allowed !== null && !offer.allowed.length;
    refs.watchForm.hidden = isClosed;
    if (isClosed)
      setText(
        refs.watchHint,
        "This page is public and asks no servers for its visitors. Where you run specviz yourself it attaches to a llama.cpp or vLLM server and shows what of its drafts is accepted.",
      );
  }

  get key() {
    return this.refs.watchKey.value.trim();
  }

  /** @param {boolean} isShown */
  setShown(isShown) {
    this.isShown = isShown;
    window.clearTimeout(this.waiting);
    if (isShown && this.attached) this.wait(this.turn);
  }

  read() {
    const asked = new URLSearchParams(window.location.search);
    for (const [name, ref] of Object.entries(ADDRESSES))
      this.refs[ref].value = (asked.get(PREFIX + name) ?? this.refs[ref].value).slice(
        0,
        this.refs[ref].maxLength,
      );
    if (asked.has(EXPECTED)) this.refs.watchExpected.checked = asked.get(EXPECTED) === "1";
  }

  /** @param {URL} url */
  fill(url) {
    for (const [name, ref] of Object.entries(ADDRESSES)) {
      const value = this.refs[ref].value.trim();
      if (value && !value.includes("@"))
        url.searchParams.set(PREFIX + name, value); // the part before an @ may be a password
      else url.searchParams.delete(PREFIX + name);
    }
    if (this.refs.watchExpected.checked) url.searchParams.set(EXPECTED, "1");
    else url.searchParams.delete(EXPECTED);
    return url;
  }

  repaint() {
    for (const [name, figure] of Object.entries(this.figures)) this.charts[name].draw(figure);
  }

  async attach() {
    const { refs } = this;
    const url = refs.watchUrl.value.trim();
    this.halt();
    const turn = this.turn;
    refs.watchStart.disabled = true;
    refs.watchStop.disabled = false;
    this.report("");
    refs.watched.hidden = true;
    setText(refs.watchSentence, "Asking it for a short text …");
    const reply = await this.ask("attach", {
      url,
      key: this.key,
      expected: refs.watchExpected.checked,
    });
    if (turn !== this.turn) return;
    refs.watchStart.disabled = false;
    const problem = problemOf(reply);
    setText(
      refs.watchSentence,
      problem ? "" : reply.sentences.map((/** @type {string} */ each) => `${each}.`).join("\n"),
    );
    if (problem) {
      this.halt();
      return this.report(problem);
    }
    this.attached = url;
    this.failures = 0;
    refs.watched.hidden = false;
    this.show(reply);
    this.wait(turn);
  }

  /** @param {number} turn */
  wait(turn) {
    window.clearTimeout(this.waiting);
    this.waiting = window.setTimeout(
      () => this.readCounters(turn),
      1000 * this.offer.every_seconds,
    );
  }

  /** @param {number} turn */
  async readCounters(turn) {
    if (turn !== this.turn || !this.isShown) return;
    if (document.hidden) return this.wait(turn);
    const reply = await this.ask("reading", { url: this.attached, key: this.key, kept: this.kept });
    if (turn !== this.turn) return;
    const problem = problemOf(reply);
    this.failures = problem ? this.failures + 1 : 0;
    if (this.failures >= MOST_FAILURES) {
      this.stop();
      return this.report(problem);
    }
    if (problem) setText(this.refs.watchState, `No reading: ${problem}. It is tried again.`);
    else this.show(reply);
    this.wait(turn);
  }

  /** @param {any} reply */
  show({ kept, restarts, facts, rows, figures, absent }) {
    const { refs } = this;
    this.kept = kept;
    refs.watchFacts.replaceChildren(
      ...facts.map((/** @type {[string, string]} */ [name, value]) => fact(name, value)),
    );
    refs.watchApart.hidden = rows.length < 2;
    const { heads } = this.offer;
    refs.watchServers.replaceChildren(
      headRow(["server", ...heads]),
      body(rows.map((/** @type {ServerRow} */ row) => serverRow(row, heads.length))),
    );
    const what = rows.length < 2 ? "The engine was" : "Engines were";
    const again = restarts
      ? ` ${what} started again ${restarts === 1 ? "once" : `${restarts} times`} meanwhile.`
      : "";
    setText(
      refs.watchState,
      `The counters are read every ${this.offer.every_seconds} seconds. They include the requests of other users.${again}`,
    );
    refs.watchAbsent.hidden = !absent.length;
    setText(refs.watchAbsent, absent.join(" "));
    this.figures = figures;
    for (const [name, ref] of Object.entries(CHARTS))
      refs[ref].closest("article").hidden = !(name in figures);
    this.repaint();
  }

  halt() {
    this.turn += 1;
    this.attached = "";
    window.clearTimeout(this.waiting);
    this.refs.watchStop.disabled = true;
  }

  stop() {
    this.halt();
    this.refs.watchStart.disabled = false;
    if (this.refs.watched.hidden) setText(this.refs.watchSentence, "");
    setText(this.refs.watchState, "Stopped: the charts show what was read.");
  }

  /** @param {string} problem */
  report(problem) {
    const { watchError, watchUrl } = this.refs;
    markWrong(watchUrl, problem.startsWith("url "));
    watchError.hidden = !problem;
    setText(watchError, problem.replace(/^url /, "Address "));
  }

  // Let one server after the other write a text, because they may share a machine.

  async write() {
    const { refs } = this;
    const plain = refs.watchPlain.value.trim();
    const urls = [plain, ...refs.watchUrl.value.split(/[\s,]+/)].filter(Boolean);
    refs.writtenStart.disabled = true;
    refs.writtenError.hidden = true;
    refs.writtenLanes.replaceChildren();
    setText(refs.writtenVerdict, "Writing …");
    const texts = [];
    for (const url of urls) {
      const reply = await this.ask("written", {
        url,
        key: this.key,
        prompt: refs.writtenPrompt.value,
      });
      const problem = problemOf(reply);
      if (problem) {
        refs.writtenError.hidden = false;
        setText(refs.writtenError, problem.replace(/^url /, `${url}: address `));
        break;
      }
      texts.push(reply);
      refs.writtenLanes.append(lane(url, reply));
    }
    refs.writtenStart.disabled = false;
    setText(
      refs.writtenVerdict,
      plain && urls.length === 2 && texts.length === 2 ? comparedTexts(texts[0], texts[1]) : "",
    );
  }
}

/** @param {any} reply */
function problemOf(reply) {
  return reply ? (reply.error ?? "") : "The server of this page cannot be reached.";
}

/** @typedef {{ address: string, problem: string, cells: string[] }} ServerRow */

/**
 * @param {ServerRow} row
 * @param {number} columns
 */
function serverRow({ address, problem, cells }, columns) {
  if (!problem) return bodyRow([address, ...cells]);
  const made = bodyRow([address, `no reading: ${problem}`], "is-gone");
  made.lastElementChild?.setAttribute("colspan", String(columns));
  return made;
}

/**
 * @param {string} name
 * @param {string} value
 */
function fact(name, value) {
  const made = element("div");
  made.append(element("dt", "", name), element("dd", "", value));
  return made;
}

/**
 * @param {string} url
 * @param {any} written
 */
function lane(url, written) {
  const made = element("article", "chart-card");
  const text = element("pre", "engine-text", written.text);
  text.tabIndex = 0;
  made.append(element("h3", "", url), element("p", "hint", textFacts(written)), text);
  return made;
}
