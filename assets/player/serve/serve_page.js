// The page that plans a deployment. It asks the server while the user types, and keeps the form in
// the address.

import { lookOf } from "../shared/chart_view.js";
import { takeFile } from "../shared/dom.js";
import { tab } from "../shared/kept.js";
import { Page } from "../shared/page.js";
import { pageIn, pageLink } from "../shared/page_parameter.js";
import { Store } from "../shared/store.js";
import { copied } from "../shared/surround.js";
import { render } from "../shared/view.js";
import * as configuration from "./configuration_state.js";
import * as plan from "./plan_state.js";
import { serveView } from "./serve_view.js";
import * as server from "./server_state.js";

/** @typedef {import("./serve_view.js").ServeState} ServeState */

const REST_MILLISECONDS = 200; // pause after the last key before the server is asked

// A longer pause after a key in the name of a model. Half of a name may be another model's name,
// and the server would ask the Hub for that model.
const NAME_MILLISECONDS = 900;
const BUSY_MILLISECONDS = 700; // the page says "Computing…" if an answer takes longer than this
const SIMULATE_MILLISECONDS = 500; // pause after the answer, because the simulation of a load takes the server longer
const CONFIGURE_MILLISECONDS = 300; // pause after the last key before a configuration is written
const COPIED_MILLISECONDS = 2500; // time until the button shows its usual word again
const FORM = "serve-form"; // the name under which the tab stores the form

export class ServePage extends Page {
  static id = "serve";
  static title = "Serve";
  static isView = true;

  /** @param {Shell} shell */
  constructor(shell) {
    super(shell);
    const { setup, theme, gradio } = shell;
    this.offer = setup.serve;
    this.gradio = gradio;
    this.asked = 0; // number of the last question about the plan; earlier answers are ignored
    this.configured = 0; // the same for configurations
    this.turn = 0; // increases with every start and stop of watching; answers of before are ignored
    const on = {
      plan: this.planEvents,
      load: this.loadEvents,
      configuration: this.configurationEvents,
      server: this.serverEvents,
    };
    this.store = new Store(
      /** @type {ServeState} */ ({
        plan: plan.usualPlan(this.offer.fields),
        configuration: configuration.usualConfiguration(this.offer.engines),
        server: server.SERVER,
      }),
      (state) => render(serveView(state, this.offer, lookOf(theme), on), this.section),
    );
  }

  get state() {
    return this.store.state;
  }

  // Change one of the three parts of the state.
  /**
   * @template {keyof ServeState} Part
   * @template {any[]} Given
   * @param {Part} part
   * @param {(state: ServeState[Part], ...given: Given) => ServeState[Part]} action
   * @param {Given} given
   */
  act(part, action, ...given) {
    this.store.act((state) => ({ ...state, [part]: action(state[part], ...given) }));
  }

  /** @param {boolean} isShown */
  setShown(isShown) {
    this.isShown = isShown;
    window.clearTimeout(this.reading);
    if (!isShown) return;
    this.readAddress();
    this.store.draw();
    this.write();
    if (!this.asked) this.size();
    if (this.state.server.watch.kind === "watching") this.wait(this.turn);
  }

  returned() {
    this.size();
  }

  // Read the address, or what the tab stored. This happens each time the page is shown.
  readAddress() {
    const asked = new URLSearchParams(window.location.search);
    const isAsked = [...asked.keys()].some((name) => this.owns(name));
    const kept = () => tab.recall(FORM, (value) => typeof value === "string") ?? "";
    this.act("server", server.readServer, asked);
    this.act(
      "plan",
      plan.filledIn,
      this.offer.fields,
      isAsked ? asked : new URLSearchParams(kept()),
    );
  }

  /** @param {string} parameter */
  owns(parameter) {
    return parameter.startsWith(plan.PREFIX);
  }

  get address() {
    const link = this.filled(new URL(pageLink(ServePage.id), window.location.href));
    const left = plan.unlinked(this.state.plan);
    return {
      link,
      linkLimit: left.length ? `without ${left.join(" and ")}` : "",
      write: () => this.write(),
    };
  }

  /** @param {URL} url */
  filled(url) {
    server.writeServer(this.state.server, url);
    plan.writePlan(this.state.plan, this.offer.fields, url);
    return url.href;
  }

  write() {
    const url = new URL(window.location.href);
    if (pageIn(url.searchParams) === ServePage.id)
      window.history.replaceState(window.history.state, "", this.filled(url));
    tab.keep(FORM, new URL(this.address.link).search);
  }

  get actions() {
    return { start: () => this.size() };
  }

  repaint() {
    if (this.isShown) this.store.draw();
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

  /** @returns {import("./plan_form.js").PlanFormEvents} */
  get planEvents() {
    return {
      typed: (name, value) => {
        this.act("plan", plan.typed, name, value);
        this.changed(REST_MILLISECONDS);
      },
      named: (model, text) => {
        this.act("plan", plan.named, model, text);
        this.changed(plan.isConfig(text) ? REST_MILLISECONDS : NAME_MILLISECONDS);
      },
      unfolded: (isOpen) => this.act("plan", plan.unfolded, isOpen),
    };
  }

  /** @param {number} rest */
  changed(rest) {
    window.clearTimeout(this.waiting);
    this.waiting = window.setTimeout(() => (this.write(), this.size()), rest);
  }

  // Ask for the size of the plan, and later for the simulation of its load.
  async size() {
    const number = (this.asked += 1);
    window.clearTimeout(this.simulating);
    const question = plan.planQuestion(this.state.plan);
    const busy = window.setTimeout(() => this.act("plan", plan.isComputing), BUSY_MILLISECONDS);
    const reply = await this.ask("size", question);
    window.clearTimeout(busy);
    if (number !== this.asked) return;
    this.act("plan", plan.answered, this.offer.fields, reply);
    if (plan.isOfMeasured(reply?.error)) return void this.size();
    if (this.state.plan.load.kind !== "simulating") return;
    this.simulating = window.setTimeout(
      () => this.simulate(number, question),
      SIMULATE_MILLISECONDS,
    );
  }

  /**
   * @param {number} number
   * @param {object} question
   */
  async simulate(number, question) {
    const reply = await this.ask("arrivals", question);
    if (number === this.asked) this.act("plan", plan.simulated, reply);
  }

  /** @returns {import("./plan_answers.js").LoadEvents} */
  get loadEvents() {
    return {
      measure: async (input) => {
        const file = takeFile(input);
        if (file) this.measureBy({ name: file.name, text: await file.text() });
      },
      compute: () => this.measureBy(null),
    };
  }

  /** @param {{ name: string, text: string } | null} measured */
  measureBy(measured) {
    this.act("plan", plan.measuredBy, measured);
    this.size();
  }

  /** @returns {import("./configuration_card.js").ConfigurationEvents} */
  get configurationEvents() {
    return {
      chose: (change) => {
        this.act("configuration", configuration.chose, change);
        this.configureLater();
      },
      entered: (name, value) => {
        this.act("configuration", configuration.entered, name, value);
        this.configureLater();
      },
      takePlan: () => {
        const planned = plan.plannedConfiguration(this.state.plan);
        if (!planned) return;
        this.act("configuration", configuration.tookPlan, planned);
        this.configure();
      },
      pasted: (change) => this.act("configuration", configuration.chose, change),
      translate: () => this.translate(),
      forms: this.formsEvents("shown"),
      translationForms: this.formsEvents("translationShown"),
    };
  }

  /**
   * @param {"shown" | "translationShown"} which
   * @returns {import("./engine_forms.js").FormsEvents}
   */
  formsEvents(which) {
    const show = (/** @type {Partial<import("./configuration_state.js").Shown>} */ change) =>
      this.act("configuration", configuration.showed, which, change);
    return {
      chosen: (chosen) => show({ chosen }),
      copy: async (text, box) => {
        const isCopied = await copied(text);
        show({ copying: isCopied ? "copied" : "failed" });
        if (!isCopied) window.getSelection()?.selectAllChildren(box);
        window.setTimeout(() => show({ copying: "" }), COPIED_MILLISECONDS);
      },
    };
  }

  configureLater() {
    window.clearTimeout(this.configuring);
    this.configuring = window.setTimeout(() => this.configure(), CONFIGURE_MILLISECONDS);
  }

  async configure() {
    const number = (this.configured += 1);
    const { engines } = this.offer;
    const question = configuration.configurationQuestion(this.state.configuration, engines);
    const reply = await this.ask("configuration", question);
    if (number === this.configured)
      this.act("configuration", configuration.configured, engines, reply);
  }

  async translate() {
    this.act("configuration", configuration.isTranslating);
    const { configuration: state } = this.state;
    const error = configuration.pastedProblem(state, this.offer.engines);
    const question = { text: state.pasted, to: state.pastedTo };
    const reply = error ? { error } : await this.ask("translation", question);
    this.act("configuration", configuration.translated, reply);
  }

  /** @returns {import("./server_card.js").ServerEvents} */
  get serverEvents() {
    return {
      edited: (change) => this.act("server", server.edited, change),
      settled: () => this.write(),
      attach: () => this.attach(),
      stop: () => (this.restart(), this.act("server", server.stopped)),
      write: () => this.writeTexts(),
    };
  }

  // Ignore the answers to earlier questions about running engines.
  restart() {
    window.clearTimeout(this.reading);
    return (this.turn += 1);
  }

  get key() {
    return this.state.server.key.trim();
  }

  async attach() {
    const turn = this.restart();
    this.act("server", server.attaching);
    const { url, isExpected: expected } = this.state.server;
    const reply = await this.ask("attach", { url: url.trim(), key: this.key, expected });
    if (turn !== this.turn) return;
    this.act("server", server.attached, reply);
    this.wait(turn);
  }

  /** @param {number} turn */
  wait(turn) {
    window.clearTimeout(this.reading);
    this.reading = window.setTimeout(
      () => this.readCounters(turn),
      1000 * this.offer.watching.every_seconds,
    );
  }

  /** @param {number} turn */
  async readCounters(turn) {
    const { watch } = this.state.server;
    if (turn !== this.turn || !this.isShown || watch.kind !== "watching") return;
    if (document.hidden) return this.wait(turn);
    const { url, reading } = watch;
    const reply = await this.ask("reading", { url, key: this.key, kept: reading.kept });
    if (turn !== this.turn) return;
    this.act("server", server.counted, reply);
    this.wait(turn);
  }

  // Let one server after the other write a text, because they may share a machine.
  async writeTexts() {
    this.act("server", server.writing);
    const { texts, prompt } = this.state.server;
    const turn = this.turn;
    for (
      let url = server.writerOf(this.state.server);
      url;
      url = server.writerOf(this.state.server)
    ) {
      const reply = await this.ask("written", { url, key: this.key, prompt });
      if (turn !== this.turn || texts.urls !== this.state.server.texts.urls) return;
      this.act("server", server.wrote, reply);
    }
  }
}
