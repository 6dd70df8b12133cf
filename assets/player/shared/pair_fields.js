// The part of the form that chooses the models: the menu of pairs, the fields for the user's own
// models, and the server's report about models before they are loaded.

import { element, setText } from "./dom.js";
import { Menu } from "./menu.js";

const CUSTOM = "custom";

export class PairFields {
  // `ask()` resolves to the server's report, or null if the server cannot be reached.
  // `onOffer(refusals)` is called with the methods that the models cannot run. `onReport()` is
  // called after a report has arrived.
  /**
   * @param {Refs} refs
   * @param {Setup} setup
   * @param {{ ask: () => Promise<Reply>, onOffer: (refusals: Record<string, string>) => void, onReport: () => void }} on
   */
  constructor(refs, setup, { ask, onOffer, onReport }) {
    this.refs = refs;
    this.setup = setup;
    this.ask = ask;
    this.onOffer = onOffer;
    this.onReport = onReport;
    this.menu = new Menu(refs.pair);
    this.menu.fill(
      setup.pairs.map((/** @type {Choice} */ { name, title, note }) => ({ name, title, note })),
    );
    setText(refs.pairLimit, setup.models_note);
    refs.pairLimit.hidden = !setup.models_note;
    refs.checkPair.addEventListener("click", () => this.check());
    this.forget();
  }

  /** @returns {PairOffer | undefined} */
  get pair() {
    return this.setup.pairs.find(
      (/** @type {Choice} */ each) => each.name === this.refs.pair.value,
    );
  }

  get isCustom() {
    return this.refs.pair.value === CUSTOM;
  }

  // A text that identifies what the report is about: the models, the method, the device and the
  // data type.
  get subject() {
    const { pair, custom, method, deviceChoice, dtype } = this.refs;
    /** @type {HTMLInputElement[]} */
    const fields = this.isCustom ? [...custom.querySelectorAll("input")] : [];
    const sources = fields.map(({ value }) => value);
    return JSON.stringify([pair.value, ...sources, method.value, deviceChoice.value, dtype.value]);
  }

  refresh() {
    const { refs, pair } = this;
    refs.custom.hidden = !this.isCustom;
    setText(refs.pairNote, pair?.note ?? "");
    setText(refs.pairClaim, pair?.claim ?? "");
    refs.pairClaim.hidden = !pair?.claim;
    refs.checkRow.hidden = pair?.is_here ?? true;
    refs.checkPair.disabled = this.isChecking || (this.isCustom && !refs.target.value.trim());
    if (this.reported !== this.subject) this.forget();
    const isAlone = this.isCustom && !refs.draft.value.trim();
    this.onOffer(
      this.found ?? this.withHeads((isAlone ? pair?.refusals_alone : pair?.refusals) ?? {}),
    );
  }

  // Return the refused methods and their reasons, without those methods that the user has made
  // possible by naming extra heads in a field.
  /** @param {Record<string, string>} refusals */
  withHeads(refusals) {
    if (!this.isCustom) return refusals;
    /** @type {HTMLInputElement[]} */
    const heads = [...this.refs.custom.querySelectorAll("input[data-enables]")];
    const enabled = heads.filter(({ value }) => value.trim()).map(({ dataset }) => dataset.enables);
    return Object.fromEntries(
      Object.entries(refusals).filter(([method]) => !enabled.includes(method)),
    );
  }

  forget() {
    this.reported = this.found = null;
    this.refs.pairReport.replaceChildren();
    this.refs.pairReport.hidden = true;
  }

  async check() {
    const { subject } = this;
    this.setChecking(true);
    const reply = await this.ask();
    this.setChecking(false);
    if (subject !== this.subject) return; // the form has changed while the server was working
    const failure = reply === null ? "The server cannot be reached." : reply.error;
    this.reported = subject;
    this.found = failure ? null : reply.refusals;
    this.show(failure ? [{ tone: "problem", text: failure }] : reply.lines);
    this.onReport();
  }

  /** @param {boolean} isChecking */
  setChecking(isChecking) {
    this.isChecking = isChecking;
    setText(this.refs.checkWord, isChecking ? "looking …" : "");
    this.refs.checkPair.disabled = isChecking;
  }

  /** @param {{ tone: string, text: string }[]} lines */
  show(lines) {
    this.refs.pairReport.replaceChildren(
      ...lines.map(({ tone, text }) => element("li", tone, text)),
    );
    this.refs.pairReport.hidden = false;
  }
}
