// Computes the values of a batch from the server's message: what each text did in each round, what
// a round cost, and how many tokens each text would have if all texts had to advance as slowly as
// the slowest one.

import { promptLine } from "../../shared/batch_rows.js";

/** @typedef {import("../../shared/batch_rows.js").BatchMessage} BatchMessage */

// Return the values of a batch for a lesson.
/** @param {BatchMessage | null} found */
export function batchNumbers(found) {
  if (!found) return {};
  const { rows, steps, plain } = found;
  const paces = rows.map(({ rounds }) => mean(rounds.map(({ written }) => written.length)));
  const [most, least] = [Math.max(...paces), Math.min(...paces)];
  const full = steps.filter((step) => step.rows === rows.length);
  const fullPlain = plain.filter((step) => step.rows === rows.length);
  const together = rows.map(({ rounds }) => rounds.slice(0, full.length));
  const each = together.flat().map(({ written }) => written.length);
  const lock = full.map((_, at) =>
    Math.min(...together.map((rounds) => rounds[at].written.length)),
  );
  const outcomes = rows.flatMap(({ rounds }) => rounds.flatMap((round) => round.outcomes));
  const [seconds, plainSeconds] = [
    mean(full.map((step) => step.seconds)),
    mean(fullPlain.map((step) => step.seconds)),
  ];
  return {
    rows: rows.length,
    length: found.length,
    model: found.model,
    looks: steps.length,
    plain_looks: plain.length,
    fastest: promptLine(rows[paces.indexOf(most)].prompt),
    fastest_pace: most,
    slowest: promptLine(rows[paces.indexOf(least)].prompt),
    slowest_pace: least,
    first_end: Math.min(...rows.map(({ rounds }) => rounds.length)),
    own_pace: mean(each),
    least_pace: mean(lock),
    ran: full[0].tokens,
    plain_ran: fullPlain[0].tokens,
    look_time: seconds,
    plain_time: plainSeconds,
    price: seconds / plainSeconds,
    gain: (mean(each) * plainSeconds) / seconds,
    wasted: outcomes.filter((outcome) => outcome !== "accepted").length / outcomes.length,
  };
}

/** @param {number[]} values */
function mean(values) {
  return values.reduce((sum, each) => sum + each, 0) / values.length;
}
