// A widget about llama.cpp with and without a draft. It shows how to find out whether the engine
// speculates, the engine's counts next to ours, and its speed under load.

import { MeasuredTables } from "../measured_tables.js";
import { ratesOf, serversNumbers, serversPossible } from "./engine_numbers.js";

/** @typedef {import("./engine_numbers.js").ServersMessage} ServersMessage */
/** @typedef {import("./engine_numbers.js").EngineCounts} EngineCounts */

/** @type {Record<string, string>} */
const NAMES = {
  plain: "without a draft",
  draft: "with a draft",
  foreign: "with a draft of another vocabulary",
};

export class RealEngine extends MeasuredTables {
  static id = "real-engine";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "servers");
  }

  /** @param {ServersMessage} found */
  numbers(found) {
    return serversNumbers(found);
  }

  /** @param {ServersMessage} found */
  allowed(found) {
    return serversPossible(found);
  }

  /**
   * @param {string} show
   * @param {ServersMessage} found
   */
  tableOf(show, { servers, compared, levels }) {
    const { ours, theirs } = compared;
    switch (show) {
      case "health":
        return {
          head: ["server", "/health", "tokens", "drafted", "accepted"],
          rows: servers.map(({ name, health, tokens, drafted, accepted }) => [
            NAMES[name],
            health,
            ...[tokens, drafted, accepted].map(String),
          ]),
        };
      case "counts":
        return {
          head: ["llama.cpp", ""],
          rows: [
            ["tokens", String(theirs.tokens)],
            ["looks over a draft", String(theirs.drafts)],
            ["drafted tokens", String(theirs.drafted)],
            ["accepted", String(theirs.accepted)],
          ],
        };
      case "compare":
        return {
          head: ["counted by", "looks", "drafted", "accepted", "at each place"],
          rows: [counts("our decoder", ours), counts("llama.cpp", theirs)],
        };
      default:
        return {
          head: ["at once", "with drafts", "without"],
          rows: levels.map((level) => [
            String(level.at_once),
            ...[ratesOf(level).draft, ratesOf(level).plain].map((rate) => rate.toFixed(0)),
          ]),
          words: "Tokens a second of all requests together, the median of several passes.",
        };
    }
  }
}

/**
 * @param {string} name
 * @param {EngineCounts} counts
 */
function counts(name, { drafts, drafted, accepted, per_position: places }) {
  return [name, ...[drafts, drafted, accepted].map(String), places.join(" ")];
}
