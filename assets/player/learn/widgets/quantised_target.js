// A widget about one model in three precisions under llama.cpp. It shows the cost of each
// precision, how often their tokens agree, and a run in which the least precise version drafts for
// the most precise one.

import { megabytes } from "../../lab/cells.js";
import { MeasuredTables } from "../measured_tables.js";
import { quantisedNumbers, quantisedPossible, secondsOf } from "./engine_numbers.js";

/** @typedef {import("./engine_numbers.js").QuantisedMessage} QuantisedMessage */
/** @typedef {import("./engine_numbers.js").Quantised} Quantised */

/** @type {Quantised[]} */
const KINDS = ["F16", "Q8_0", "Q4_0"];
/** @type {Record<string, string>} */
const NAMES = { F16: "F16 alone", drafted: "F16, Q4_0 drafts", Q4_0: "Q4_0 alone" };

export class QuantisedTarget extends MeasuredTables {
  static id = "quantised-target";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "quantised");
  }

  /** @param {Record<string, string>} scene */
  order({ model }) {
    return { name: `quantised-${model}`, question: { model } };
  }

  /** @param {QuantisedMessage} found */
  numbers(found) {
    return quantisedNumbers(found);
  }

  /** @param {QuantisedMessage} found */
  allowed(found) {
    return quantisedPossible(found);
  }

  /**
   * @param {string} show
   * @param {QuantisedMessage} found
   */
  tableOf(show, found) {
    const { tokens, bytes, agreed, drafts, length } = found;
    const seconds = (/** @type {Quantised} */ name) => secondsOf(found, name).toFixed(3);
    const clock = (/** @type {Quantised} */ name) => [String(tokens[name]), seconds(name)];
    const words = "Seconds are those of the engine’s own clock, in the quickest of several passes.";
    switch (show) {
      case "speed":
        return {
          head: ["file", "size", "tokens", "seconds"],
          rows: KINDS.map((kind) => [kind, megabytes(bytes[kind]), ...clock(kind)]),
          words,
        };
      case "agreement":
        return {
          head: ["file", "places", "same token as F16"],
          rows: KINDS.slice(1).map((kind) => [kind, String(tokens.F16), String(agreed[kind])]),
        };
      case "draft":
        return {
          head: ["F16, Q4_0 drafts", ""],
          rows: [
            ["looks over a draft", String(drafts.drafts)],
            ["drafted tokens", String(drafts.drafted)],
            ["accepted", String(drafts.accepted)],
            ["tokens ahead, K", String(length)],
            ...KINDS.filter((kind) => kind !== "Q8_0").map((kind) => [
              `a token of ${kind}`,
              `${((1000 * secondsOf(found, kind)) / tokens[kind]).toFixed(2)} ms`,
            ]),
          ],
        };
      case "clock":
        return {
          head: ["", "tokens", "seconds"],
          rows: Object.keys(NAMES).map((name) => [
            NAMES[name],
            ...clock(/** @type {Quantised} */ (name)),
          ]),
          words,
        };
      default:
        return this.whole(found);
    }
  }

  /** @param {QuantisedMessage} found */
  whole(found) {
    const { bytes, agreed, tokens } = found;
    const { f16_rate, q8_rate, q4_rate, drafted_rate, acceptance } = quantisedNumbers(found);
    const percent = (/** @type {number} */ share) => `${(100 * share).toFixed(0)} %`;
    const rates = [f16_rate, q8_rate, q4_rate];
    return {
      head: ["", "size", "tokens/s", "as F16", "accepted"],
      rows: [
        ...KINDS.map((kind, at) => [
          kind,
          megabytes(bytes[kind]),
          rates[at].toFixed(0),
          percent(agreed[kind] / tokens.F16),
          "",
        ]),
        ["with drafts", "", drafted_rate.toFixed(0), "", percent(acceptance)],
      ],
      words: "As F16: places with F16’s own token. Accepted: of drafted tokens.",
    };
  }
}
