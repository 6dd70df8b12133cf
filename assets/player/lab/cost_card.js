// What a load costs a day, plain and speculative, from the rates of the chosen point or typed ones.
// Knows the fields; the arithmetic is the server's.

import { setText } from "../dom.js";
import { body, bodyRow, DASH, headRow, megabytes, milliseconds } from "./cells.js";

const REST_MILLISECONDS = 150; // after the last key
const HEADINGS = ["", "machines", "a day", "a million tokens", "at work", "first token", "memory on top"];
const LABELS = {
  tokens_per_day: "Tokens a day",
  peak_factor: "Busiest hour",
  price_per_hour: "Price an hour",
  baseline_rate: "Baseline",
  speculative_rate: "Speculative",
};

export class CostCard {
  // `ask(name, question)` asks the server.
  constructor(refs, ask) {
    Object.assign(this, { refs, ask, point: null, costs: null });
    this.fields = Object.fromEntries([...refs.costsForm.querySelectorAll("[data-cost]")].map((each) => [each.dataset.cost, each]));
    for (const field of Object.values(this.fields)) field.setAttribute("aria-describedby", "sv-costs-error");
    refs.costsForm.addEventListener("input", (event) => {
      if (event.target.dataset.cost.endsWith("_rate")) this.typed();
      window.clearTimeout(this.waiting);
      this.waiting = window.setTimeout(() => this.reckon(), REST_MILLISECONDS);
    });
  }

  // The rates follow the chosen point.
  setPoint(point, words) {
    if (!point) return;
    this.point = point;
    this.fields.baseline_rate.value = point.baseline_tokens_per_second.toFixed(1);
    this.fields.speculative_rate.value = point.tokens_per_second.toFixed(1);
    setText(this.refs.costsPoint, `Rates measured at ${words}`);
    this.reckon();
  }

  // A rate of one's own: what was measured beside it says nothing of it.
  typed() {
    this.point = null;
    setText(this.refs.costsPoint, "Rates as typed");
  }

  async reckon() {
    const form = Object.fromEntries(Object.entries(this.fields).map(([name, field]) => [name, field.value]));
    const reply = await this.ask("costs", form);
    this.tellError(reply === null ? "The server cannot be reached." : reply.error);
    this.costs = reply?.error === null ? reply.costs : null;
    setText(this.refs.costsSentence, this.costs ? reply.sentence : "");
    this.draw();
  }

  tellError(text) {
    const { costsError } = this.refs;
    const [name] = (text ?? "").split(" ", 1);
    setText(costsError, (text ?? "").replace(name, LABELS[name] ?? name));
    costsError.hidden = !text;
    for (const [each, field] of Object.entries(this.fields)) {
      if (each === name) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    }
  }

  draw() {
    const { point, costs } = this;
    const measured = {
      baseline: [milliseconds(point?.baseline_ttft_seconds), DASH],
      speculative: [milliseconds(point?.ttft_seconds), megabytes(point?.drafter_bytes)],
    };
    const rows = Object.entries(measured).map(([name, others]) => bodyRow([name, ...dayOf(costs?.[name]), ...others]));
    this.refs.costsTable.replaceChildren(headRow(HEADINGS), body(rows));
  }
}

function dayOf(cost) {
  if (!cost) return [DASH, DASH, DASH, DASH];
  const money = (value) => value.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  return [cost.machines.toLocaleString("en"), money(cost.money), money(cost.money_per_million_tokens), `${Math.round(100 * cost.utilisation)} %`];
}
