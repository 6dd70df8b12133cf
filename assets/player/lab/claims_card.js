// The list of all claims. The user filters them by verdict, opens them, and measures one at a time.

import { element, setText } from "../shared/dom.js";
import { markWrong } from "../shared/field_errors.js";
import { claimView, triedView, VERDICTS } from "./claim_view.js";
import { LabRun } from "./lab_run.js";

const REST_MILLISECONDS = 150; // pause after the last key before the server is asked

export class ClaimsCard {
  /**
   * @param {Refs} refs
   * @param {GradioLink} gradio
   */
  constructor(refs, gradio) {
    this.refs = refs;
    /** @type {Reply[]} */
    this.claims = [];
    this.chosen = "";
    /** @type {WeakMap<object, number>} form with the user's own numbers -> its timer */
    this.waiting = new WeakMap();
    this.run = new LabRun(null, gradio, {
      message: (message) => this.take(message),
      failed: (text) => this.showError(text),
      ended: () => this.lock(false),
    });
    refs.claimsFilter.addEventListener("click", (/** @type {any} */ event) =>
      this.filter(event.target.closest("[data-verdict]")),
    );
    refs.claims.addEventListener("click", (/** @type {any} */ event) => this.press(event));
    refs.claims.addEventListener("input", (/** @type {any} */ event) =>
      this.typed(event.target.closest("[data-try]")),
    );
  }

  async load() {
    const reply = await this.run.transport.ask("claims", {});
    if (reply === null || reply.error)
      return this.showError(reply?.error ?? "The server cannot be reached.");
    this.claims = reply.claims;
    this.budget = reply.budget;
    this.refs.claims.replaceChildren(...this.claims.map((claim) => claimView(claim, this)));
    this.drawFilter();
  }

  drawFilter() {
    const count = (/** @type {string} */ verdict) =>
      this.claims.filter((claim) => claim.verdict === verdict).length;
    const verdicts = Object.keys(VERDICTS).filter(
      (verdict) => count(verdict) || verdict === this.chosen,
    );
    const choices = [
      ["", `all ${this.claims.length}`],
      ...verdicts.map((verdict) => [verdict, `${verdict} ${count(verdict)}`]),
    ];
    this.refs.claimsFilter.replaceChildren(
      ...choices.map(([verdict, text]) => this.choice(verdict, text)),
    );
    for (const view of this.refs.claims.children)
      view.hidden = this.chosen !== "" && view.dataset.verdict !== this.chosen;
  }

  /**
   * @param {string} verdict
   * @param {string} text
   */
  choice(verdict, text) {
    const made = element("button", "chip", text);
    made.type = "button";
    made.dataset.verdict = verdict;
    made.setAttribute("aria-pressed", String(verdict === this.chosen));
    return made;
  }

  /** @param {any} button */
  filter(button) {
    if (!button) return;
    this.chosen = button.dataset.verdict;
    this.drawFilter();
    this.refs.claimsFilter.querySelector("[aria-pressed=true]").focus({ preventScroll: true });
  }

  // Ask the server after a pause in typing. Each claim has a timer of its own.
  /** @param {any} form */
  typed(form) {
    if (!form) return;
    window.clearTimeout(this.waiting.get(form));
    this.waiting.set(
      form,
      window.setTimeout(() => this.tryOwn(form), REST_MILLISECONDS),
    );
  }

  /** @param {any} form */
  async tryOwn(form) {
    const fields = [...form.querySelectorAll("[data-own]")];
    const numbers = Object.fromEntries(fields.map(({ dataset, value }) => [dataset.own, value]));
    const reply = await this.run.transport.ask("try_claim", {
      number: Number(form.dataset.try),
      numbers,
    });
    // ignore the server's answer, because the user has changed the numbers in the meantime
    if (fields.some(({ dataset, value }) => numbers[dataset.own] !== value)) return;
    const problem = reply === null ? "The server cannot be reached." : (reply.error ?? "");
    const line = form.querySelector(".error");
    setText(line, problem);
    line.hidden = !problem;
    for (const field of fields)
      markWrong(field, problem.startsWith(`${field.labels[0].textContent} must `));
    form
      .querySelector(".claim-tried")
      .replaceChildren(...(problem ? [] : triedView(/** @type {Reply} */ (reply).theory)));
  }

  /** @param {any} event */
  press(event) {
    const button = event.target.closest("[data-measure]");
    if (!button || this.run.isBusy) return;
    const view = button.closest("details");
    const part = (/** @type {string} */ name) => view.querySelector(`[data-part=${name}]`);
    this.refs.claimsError.hidden = true;
    this.number = Number(view.dataset.number);
    this.run.attach({ go: button, stop: part("stop"), state: part("state") });
    this.lock(true);
    this.run.start("claim", { number: this.number });
  }

  // Disable the buttons of all claims while one is measured.
  /** @param {boolean} isLocked */
  lock(isLocked) {
    for (const button of this.refs.claims.querySelectorAll("[data-measure]"))
      button.disabled = isLocked;
  }

  /** @param {any} message */
  take(message) {
    if (message.kind === "line") this.run.showState(message.text);
    if (message.kind === "claim") this.measured(message);
    if (message.kind === "end" && message.reason === "stopped") this.run.showState("stopped");
  }

  /** @param {Reply} message */
  measured({ claim, place }) {
    const at = this.claims.findIndex(({ number }) => number === claim.number);
    this.claims[at] = claim;
    const old = this.refs.claims.children[at];
    const view = claimView(claim, this, place);
    view.open = old.open;
    const hadFocus = old.contains(document.activeElement);
    old.replaceWith(view);
    const part = (/** @type {string} */ name) => view.querySelector(`[data-part=${name}]`);
    this.run.attach({
      go: view.querySelector("[data-measure]"),
      stop: part("stop"),
      state: part("state"),
    });
    this.run.setBusy(true);
    if (hadFocus) view.querySelector("summary")?.focus({ preventScroll: true });
    this.drawFilter();
  }

  /** @param {string} text */
  showError(text) {
    this.lock(false);
    setText(this.refs.claimsError, text);
    this.refs.claimsError.hidden = false;
  }
}
