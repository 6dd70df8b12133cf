// The page that plans a deployment: a form, and the results that the server computes while the user
// types.

import { Chart } from "../shared/charts.js";
import { element, setText, takeFile } from "../shared/dom.js";
import { showLinkProblems } from "../shared/link_notice.js";
import { Page } from "../shared/page.js";
import { pageIn, pageLink } from "../shared/page_parameter.js";
import { ConfigurationCard } from "./configuration_card.js";
import { PlanForm, PREFIX } from "./plan_form.js";
import { ServerCard } from "./server_card.js";
import {
  lengthWords,
  roomWords,
  servedWords,
  showFacts,
  showList,
  showTable,
  showTrust,
} from "./size_view.js";

const REST_MILLISECONDS = 200; // pause after the last key before the server is asked

// A longer pause after a key in the name of a model. Half of a name may be another model's name,
// and the server would ask the Hub for that model.
const NAME_MILLISECONDS = 900;
const BUSY_MILLISECONDS = 700; // the page says "Computing…" if an answer takes longer than this
const SIMULATE_MILLISECONDS = 500; // pause after the answer, because the simulation of a load takes the server longer
const CHARTS = { batch: "planBatch", memory: "planMemory", first: "planFirst", token: "planToken" };

export class ServePage extends Page {
  static id = "serve";
  static title = "Serve";

  /** @param {Shell} shell */
  constructor(shell) {
    super(shell);
    const { refs, setup, theme, gradio } = shell;
    this.refs = refs;
    this.gradio = gradio;
    this.trust = setup.serve.trust;
    this.form = new PlanForm(refs, setup.serve.fields, (isName) =>
      this.changed(isName ? NAME_MILLISECONDS : REST_MILLISECONDS),
    );
    this.configuration = new ConfigurationCard(refs, setup.serve.engines, (name, question) =>
      this.ask(name, question),
    );
    this.server = new ServerCard(
      refs,
      setup.serve.watching,
      (name, question) => this.ask(name, question),
      theme,
      () => this.write(),
    );
    /** @type {Record<string, Chart>} */
    this.charts = Object.fromEntries(
      Object.entries(CHARTS).map(([name, ref]) => [name, new Chart(refs[ref], theme)]),
    );
    /** @type {Record<string, Figure>} */
    this.figures = {};
    this.asked = 0; // number of the last request; earlier answers are ignored
    /** @type {{ name: string, text: string } | null} */
    this.measured = null; // a file with the user's own measured times
    refs.planMeasure.addEventListener("click", () => refs.planMeasured.click());
    refs.planMeasured.addEventListener("change", () => this.measure());
    refs.planCompute.addEventListener(
      "click",
      () => (this.setMeasured(null), refs.planMeasure.focus()),
    );
    setText(refs.planTrust, this.trust.sentence);
  }

  /** @param {boolean} isShown */
  setShown(isShown) {
    this.isShown = isShown;
    this.server.setShown(isShown);
    if (!isShown) return;
    this.readAddress();
    this.write();
    if (!this.asked) this.size();
  }

  returned() {
    this.size();
  }

  // Read the address, or what the tab stored. This happens each time the page is shown.
  readAddress() {
    this.server.read();
    const problems = this.form.read();
    showLinkProblems(this.refs.planNotice, problems);
  }

  /** @param {string} parameter */
  owns(parameter) {
    return parameter.startsWith(PREFIX);
  }

  get address() {
    const link = this.filled(new URL(pageLink(ServePage.id), window.location.href));
    const left = [
      ...(this.form.hasPasted ? ["the pasted configuration"] : []),
      ...(this.measured ? ["the measured times"] : []),
    ];
    return {
      link,
      linkLimit: left.length ? `without ${left.join(" and ")}` : "",
      write: () => this.write(),
    };
  }

  /** @param {URL} url */
  filled(url) {
    return this.form.filled(this.server.fill(url));
  }

  write() {
    const url = new URL(window.location.href);
    if (pageIn(url.searchParams) === ServePage.id)
      window.history.replaceState(window.history.state, "", this.filled(url));
    this.form.keep(this.address.link);
  }

  get actions() {
    return { start: () => this.size() };
  }

  repaint() {
    for (const [name, figure] of Object.entries(this.figures)) this.charts[name].draw(figure);
    this.server.repaint();
  }

  /** @param {number} rest */
  changed(rest) {
    window.clearTimeout(this.waiting);
    this.waiting = window.setTimeout(() => (this.write(), this.size()), rest);
  }

  async size() {
    const number = (this.asked += 1);
    window.clearTimeout(this.simulating);
    const question = {
      ...this.form.question,
      ...(this.measured ? { measured: this.measured } : {}),
    };
    const busy = window.setTimeout(
      () => (this.setStale(true), setText(this.refs.planAnswer, "Computing…")),
      BUSY_MILLISECONDS,
    );
    const reply = await this.ask("size", question);
    window.clearTimeout(busy);
    if (number !== this.asked) return;
    const problem = reply ? reply.error : "The server cannot be reached.";
    if (problem?.startsWith("measured ")) return this.setMeasured(null, problem);
    const told = this.form.report(problem ?? "");
    this.setStale(Boolean(problem));
    this.configuration.setPlan(problem ? null : reply.configuration);
    if (problem) return setText(this.refs.planAnswer, `No answer yet. ${told}`);
    if (!this.draw(reply.size, reply.figures)) return;
    this.simulating = window.setTimeout(
      () => this.simulate(number, question),
      SIMULATE_MILLISECONDS,
    );
  }

  /**
   * @param {any} size
   * @param {Record<string, Figure>} figures
   */
  draw(size, figures) {
    const { refs } = this;
    setText(refs.planAnswer, size.answer);
    showList(refs.planReasons, size.reasons);
    setText(refs.planUnit, size.unit);
    // show the server's estimate in the empty field
    this.form.controls.acceptance.setAttribute("placeholder", String(size.acceptance));
    showList(refs.planWarnings, size.warnings, "warning");
    showFacts(refs.planFacts, size);
    showTable(refs.planTable, size);
    showTrust(refs, this.trust, size.assumed);
    setText(refs.planLengths, lengthWords(size));
    setText(refs.planRoom, roomWords(size));
    refs.planCharts.hidden = false;
    // A plan that does not fit into memory has no times.
    for (const part of [refs.planFacts, refs.planGains, refs.planNumbers]) part.hidden = !size.fits;
    const isSimulated = size.fits || this.measured !== null; // if times were measured, the engine had enough memory
    refs.planLoad.hidden = !isSimulated;
    this.drawFigures(figures);
    refs.planLoad.classList.toggle("is-stale", true); // pale until the new load is simulated
    setText(refs.planServed, "Simulating…");
    return isSimulated;
  }

  async measure() {
    const file = takeFile(this.refs.planMeasured);
    if (file) this.setMeasured({ name: file.name, text: await file.text() });
  }

  /**
   * @param {{ name: string, text: string } | null} measured
   * @param {string} [problem] why the server refused the file
   */
  setMeasured(measured, problem = "") {
    this.measured = measured;
    const { planCompute, planMeasuredError } = this.refs;
    planCompute.hidden = !measured;
    planMeasuredError.hidden = !problem;
    setText(planMeasuredError, problem.replace(/^measured/, "The file"));
    this.size();
  }

  /**
   * @param {number} number
   * @param {object} question
   */
  async simulate(number, question) {
    const reply = await this.ask("arrivals", question);
    if (number !== this.asked) return;
    const { refs } = this;
    if (!reply || reply.error)
      return setText(
        refs.planServed,
        reply ? `Not simulated: ${reply.error}` : "The server cannot be reached.",
      );
    refs.planLoad.classList.remove("is-stale");
    setText(refs.planServed, servedWords(reply.results, reply.load));
    refs.planMeasuredBy.hidden = !reply.measured.length;
    refs.planMeasuredBy.replaceChildren(
      ...reply.measured.map((/** @type {string} */ text) => element("li", "", text)),
    );
    this.drawFigures(reply.figures);
  }

  /** @param {Record<string, Figure>} figures */
  drawFigures(figures) {
    this.figures = { ...this.figures, ...figures };
    for (const [name, figure] of Object.entries(figures)) this.charts[name].draw(figure);
  }

  /** @param {boolean} isStale */
  setStale(isStale) {
    for (const part of [
      this.refs.planReasons,
      this.refs.planWarnings,
      this.refs.planFacts,
      this.refs.planCharts,
      this.refs.planLoad,
      this.refs.planNumbers,
    ])
      part.classList.toggle("is-stale", isStale);
  }

  /**
   * @param {string} name
   * @param {object} question
   */
  async ask(name, question) {
    try {
      return await this.gradio.server[name](question);
    } catch {
      return null;
    }
  }
}
