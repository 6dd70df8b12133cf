// The lab's page. It connects its cards and defines what its keys do.

import { setText } from "../shared/dom.js";
import { showLinkProblems } from "../shared/link_notice.js";
import { Page } from "../shared/page.js";
import { addressSettings, numberProblem, problemOf, settingOf } from "../shared/settings.js";
import { AdviceCard } from "./advice_card.js";
import { ClaimsCard } from "./claims_card.js";
import { CostCard } from "./cost_card.js";
import { ExactCard } from "./exact_card.js";
import { LabAddress, PREFIX } from "./lab_address.js";
import { PeersCard } from "./peers_card.js";
import { SettingForm } from "./setting_form.js";
import { SweepCard } from "./sweep_card.js";

export class LabPage extends Page {
  static id = "lab";
  static title = "Lab";

  /** @param {Shell} shell */
  constructor(shell) {
    super(shell);
    const { refs, theme, setup, prompts, gradio } = shell;
    this.refs = refs;
    const setting = () => this.setting;
    const onResult = () => this.setting.fold.close();
    this.sweep = new SweepCard(refs, theme, setup, gradio, {
      setting,
      onResult,
      onPoint: (...point) => this.costs.setPoint(...point),
    });
    const ask = (/** @type {string} */ name, /** @type {object} */ question) =>
      this.sweep.run.transport.ask(name, question);
    this.setting = new SettingForm(refs, setup, prompts, ask, {
      changed: () => (this.sweep.form.drawSize(), this.exact?.drawForm()),
      offer: (refusals, tasks) => (
        this.sweep.form.offer(refusals, tasks),
        this.exact?.offer(refusals)
      ),
    });
    this.sweep.form.begin();
    this.costs = new CostCard(refs, setup.lab.bounds, ask);
    this.peers = new PeersCard(refs, gradio, { setting, onResult });
    this.exact = new ExactCard(refs, setup, gradio, prompts, { setting });
    this.claims = new ClaimsCard(refs, gradio);
    this.advice = new AdviceCard(refs, setup, gradio, {
      setting,
      sweepFile: () => (this.sweep.sweep.isEmpty ? "" : this.sweep.sweep.file),
      onResult,
      onSweep: (method) => this.sweep.startWith(method),
    });
    this.fields = labAddress(this, setup.lab.bounds);
    this.readAddress();
    for (const kind of ["input", "change", "click"])
      refs.lab.addEventListener(kind, () => this.fields.writeSoon());
    refs.lab.addEventListener("warned", (/** @type {any} */ event) =>
      this.showWarning(/** @type {CustomEvent} */ (event).detail),
    );
    this.isOpened = false;
  }

  // Show a warning about the prompts.
  /** @param {string} text */
  showWarning(text) {
    this.refs.labPromptNotice.hidden = !text;
    setText(this.refs.labPromptNotice, text);
  }

  readAddress() {
    const problems = this.fields.read();
    this.setting.draw();
    this.sweep.form.taken();
    this.exact.drawForm();
    showLinkProblems(this.refs.labNotice, problems);
  }

  /** @param {boolean} isShown */
  setShown(isShown) {
    if (isShown) this.fields.write();
    if (!isShown || this.isOpened) return;
    this.isOpened = true;
    this.advice.recall();
    this.sweep.recall();
    this.costs.reckon();
    this.claims.load();
  }

  get actions() {
    const { views } = this.sweep;
    return {
      position: (/** @type {number} */ by) => views.step(by),
      first: () => views.step(-Infinity),
      last: () => views.step(Infinity),
      start: () => this.sweep.start(),
    };
  }

  // Stop everything on this page that runs or waits.
  halt() {
    for (const { run } of [
      this.sweep,
      this.sweep.batch,
      this.peers,
      this.exact,
      this.claims,
      this.advice,
    ])
      run.stop();
  }

  get address() {
    return this.fields;
  }

  /** @param {string} parameter */
  owns(parameter) {
    return parameter.startsWith(PREFIX);
  }

  repaint() {
    this.sweep.views.repaint();
  }
}

// Return all fields of the page that a link restores.
/**
 * @param {LabPage} page
 * @param {Record<string, Bounds>} bounds
 */
function labAddress({ refs, setting, sweep: { form }, advice, costs, exact }, bounds) {
  const shared = Object.entries(setting.controls).map(([name, control]) => [
    settingOf(name).key,
    control,
  ]);
  const costFields = { load: "tokens_per_day", peak: "peak_factor", price: "price_per_hour" };
  const sweep = {
    method: refs.labMethod, // this field must be first, because the method decides which axes exist
    vary: refs.axis1,
    values: refs.values1,
    and: refs.axis2,
    "and-values": refs.values2,
    k: refs.labLength,
    repeats: refs.labRepeats,
    ...form.batch.controls,
  };
  const others = {
    methods: refs.adviceMethods,
    batch: refs.adviceBatch,
    seconds: refs.adviceSeconds,
    "peers-k": refs.peersLength,
  };
  const costed = Object.entries(costFields);
  const drawn = {
    "exact-text": refs.exactText,
    "exact-method": refs.exactMethod,
    "exact-k": refs.exactLength,
    "exact-draft": refs.exactDraft,
    "exact-draws": refs.exactDraws,
  };
  const fields = {
    ...Object.fromEntries(shared),
    prompts: refs.labPrompts,
    ...sweep,
    ...others,
    ...drawn,
    ...Object.fromEntries(costed.map(([key, name]) => [key, costs.fields[name]])),
  };
  const number = (/** @type {string} */ name) => (/** @type {string} */ text) =>
    numberProblem(bounds[name], text);
  const rules = {
    ...Object.fromEntries(
      addressSettings().map((each) => [
        each.key,
        (/** @type {string} */ text) => problemOf(each, text),
      ]),
    ),
    prompts: (/** @type {string} */ text) => setting.countProblem(text),
    vary: (/** @type {string} */ text) => form.fields[0].axisProblem(text),
    and: (/** @type {string} */ text) => form.fields[1].axisProblem(text),
    values: (/** @type {string} */ text) => form.fields[0].problem(text),
    "and-values": (/** @type {string} */ text) => form.fields[1].problem(text),
    repeats: number("repeats"),
    ...form.batch.rules,
    methods: (/** @type {string} */ text) => advice.methodsProblem(text),
    batch: number("batch_size"),
    seconds: number("seconds"),
    "peers-k": (/** @type {string} */ text) => problemOf(settingOf("draft_length"), text),
    "exact-k": (/** @type {string} */ text) => problemOf(settingOf("draft_length"), text),
    "exact-draws": (/** @type {string} */ text) => exact.drawsProblem(text),
    ...Object.fromEntries(
      costed.map(([key, name]) => [key, (/** @type {string} */ text) => costs.problem(name, text)]),
    ),
  };
  return new LabAddress(fields, rules, setting.own, () => (setting.draw(), form.offerAxes()));
}
