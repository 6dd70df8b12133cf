// The rounds of a run that drafted ahead, on one clock: when the target and the draft worked, and
// for which rounds the draft was ready in time.

/** @typedef {{ start: number, end: number }} Stretch seconds on the lane's own clock */
/** @typedef {{ hit: boolean, prepared: number, start: number, end: number, verify: Stretch, ahead: Stretch | null, draft: Stretch | null, wait: Stretch | null, kept: number }} ClockRound */

// Return the times of a round, or null if its record has none. The prefill of the prompt is not
// included.
/**
 * @param {Round} round
 * @returns {ClockRound | null}
 */
export function clockRound(round) {
  const { spans, notes } = round.record;
  const note = /** @type {any} */ (notes.find((each) => "hit" in each));
  const stretches = spans.who.map((who, at) => ({
    who,
    start: spans.start[at],
    end: spans.end[at],
  }));
  const verify = stretches.find(({ who }) => who === "verify");
  if (!note || !verify) return null;
  const drafts = stretches.filter(({ who }) => who === "draft");
  const before = drafts.find(({ end }) => end <= verify.start + 1e-9) ?? null;
  const wait = drafts.find(({ start }) => start >= verify.end - 1e-9) ?? null;
  const ahead = stretches.find(({ who }) => who === "draft ahead") ?? null;
  const host = stretches.find(({ who }) => who === "host");
  const prepared = note.outcomes.reduce(
    (/** @type {number} */ sum, /** @type {number} */ each) => sum + each,
    0,
  );
  return {
    hit: note.hit,
    prepared,
    start: before?.start ?? verify.start,
    end: host?.end ?? verify.end,
    verify,
    ahead,
    draft: before,
    wait,
    kept: round.accepted.length,
  };
}

// Return the values of a run that drafted ahead, for a lesson. The first round is left out, because
// nothing could be prepared for it.
/** @param {ClockRound[]} rounds */
export function clockNumbers(rounds) {
  const [, ...asked] = rounds;
  if (!asked.length) return {};
  const hits = asked.filter(({ hit }) => hit);
  const misses = asked.filter(({ hit }) => !hit);
  const [late, soon] = [
    mean(misses.map(({ draft }) => length(draft))),
    mean(hits.map(({ draft }) => length(draft))),
  ];
  const verify = mean(asked.map((each) => length(each.verify)));
  return {
    rounds: asked.length,
    hits: hits.length,
    misses: misses.length,
    hit_share: hits.length / asked.length,
    late,
    soon,
    verify,
    wait: mean(asked.map(({ wait }) => length(wait))),
    ahead: mean(asked.map(({ ahead }) => length(ahead))),
    prepared: Math.max(...asked.map(({ prepared }) => prepared)),
    hit_round: mean(hits.map(lasting)),
    miss_round: mean(misses.map(lasting)),
    late_cost: late / verify,
  };
}

/** @param {Stretch | null} stretch */
function length(stretch) {
  return stretch ? stretch.end - stretch.start : 0;
}

/** @param {ClockRound} round */
function lasting({ start, end }) {
  return end - start;
}

/** @param {number[]} values */
function mean(values) {
  return values.length ? values.reduce((sum, each) => sum + each, 0) / values.length : 0;
}
