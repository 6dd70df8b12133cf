// The card that computes the daily cost of a load, with plain and with speculative decoding. The
// two rates are typed, or measured at the chosen point of the sweep.

import { withoutThousands } from "../shared/decimal_comma.js";
import { setText } from "../shared/dom.js";
import { FieldErrors } from "../shared/field_errors.js";
import { numberProblem } from "../shared/settings.js";
import { body, bodyRow, DASH, headRow, memoryWords, milliseconds } from "./cells.js";

const REST_MILLISECONDS = 150; // pause after the last key before the server is asked
const HEADINGS = [
  "",
  "machines",
  "cost per day",
  "cost per million tokens",
  "time at work",
  "first token after",
  "memory in addition to the target",
];
/** @type {Record<string, string>} */
const LABELS = {
  tokens_per_day: "Load",
  peak_factor: "Busiest hour",
  price_per_hour: "Price",
  baseline_rate: "Plain decoding",
  speculative_rate: "Speculation",
};
/** @type {Record<string, string>} */
const ROWS = { baseline: "plain decoding", speculative: "speculation" };

export class CostCard {
  // `bounds` are the bounds of the fields, keyed by name. `ask(name, question)` asks the server.
  /**
   * @param {Refs} refs
   * @param {Record<string, Bounds>} bounds
   * @param {(name: string, question: object) => Promise<Reply>} ask
   */
  constructor(refs, bounds, ask) {
    this.refs = refs;
    this.bounds = bounds;
    this.ask = ask;
    this.point = null;
    this.costs = null;
    this.fields = Object.fromEntries(
      [...refs.costsForm.querySelectorAll("[data-cost]")].map((each) => [each.dataset.cost, each]),
    );
    this.errors = new FieldErrors(refs.costsError.closest("section"));
    for (const field of Object.values(this.fields))
      field.setAttribute("aria-describedby", "sv-costs-error");
    refs.costsForm.addEventListener("input", (/** @type {any} */ event) => {
      if (event.target.dataset.cost.endsWith("_rate")) this.typed();
      window.clearTimeout(this.waiting);
      this.waiting = window.setTimeout(() => this.reckon(), REST_MILLISECONDS);
    });
  }

  // Return what is wrong with a field's text, or "" if nothing is. Thousands may be separated by
  // commas.
  /**
   * @param {string} name
   * @param {string} text
   */
  problem(name, text) {
    return numberProblem(this.bounds[name], withoutThousands(text));
  }

  // Fill in the rates that were measured at the chosen point of the sweep.
  /**
   * @param {any} point
   * @param {string} words
   */
  setPoint(point, words) {
    if (!point) return;
    this.point = point;
    this.fields.baseline_rate.value = point.baseline_tokens_per_second.toFixed(1);
    this.fields.speculative_rate.value = point.tokens_per_second.toFixed(1);
    setText(this.refs.costsPoint, `The two rates were measured by the sweep at ${words}.`);
    this.reckon();
  }

  // React to a rate that the user typed. The two rates are then no longer those of one point of the
  // sweep, so the card forgets this point.
  typed() {
    this.point = null;
    setText(this.refs.costsPoint, "The two rates are as typed.");
  }

  async reckon() {
    const form = Object.fromEntries(
      Object.entries(this.fields).map(([name, field]) => [name, field.value]),
    );
    const reply = await this.ask("costs", form);
    this.showError(reply === null ? "The server cannot be reached." : reply.error);
    this.costs = reply?.error === null ? reply.costs : null;
    setText(this.refs.costsSentence, this.costs ? reply.sentence : "");
    this.draw();
  }

  /** @param {string} text */
  showError(text) {
    this.errors.clear();
    if (!text) return;
    const [name] = text.split(" ", 1);
    this.errors.show(
      this.refs.costsError,
      text.replace(name, LABELS[name] ?? name),
      this.fields[name],
    );
  }

  draw() {
    const { point, costs } = this;
    const measured = {
      baseline: [milliseconds(point?.baseline_ttft_seconds), DASH],
      speculative: [milliseconds(point?.ttft_seconds), memoryWords(point)],
    };
    const rows = Object.entries(measured).map(([name, others]) =>
      bodyRow([ROWS[name], ...dayOf(costs?.[name]), ...others]),
    );
    this.refs.costsTable.replaceChildren(headRow(HEADINGS), body(rows));
  }
}

/** @param {any} cost */
function dayOf(cost) {
  if (!cost) return [DASH, DASH, DASH, DASH];
  const money = (/** @type {number} */ value) =>
    value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  return [
    cost.machines.toLocaleString("en"),
    money(cost.money),
    money(cost.money_per_million_tokens),
    `${Math.round(100 * cost.utilisation)} %`,
  ];
}
