// The numbers of runs that end their drafts by different rules: a fixed length, the adaptive length,
// and an oracle. All runs of a task write the same text.

/** @typedef {{ draft: string[], kept: number, extra: string | null }} StopRound */
/** @typedef {{ task: string, policy: string, K: number, rounds: StopRound[] }} StopRow */
/** @typedef {{ rows: StopRow[], seconds: number[][] }} StopsMessage `seconds` has a list for each pass: the time of a round with 0, 1, … drafted tokens */
/** @typedef {{ drafted: number, kept: number, rounds: number, tokens: number, speedup: number }} StopNumbers */

const FIXED = "fixed";

// Return the rounds of the oracle, which ends every draft exactly before the guess that would be
// rejected. They follow from those of the longest fixed draft, because only what is thrown away
// differs.
/** @param {StopRound[]} longest */
export function oracleRounds(longest) {
  return longest.map((round) => ({ ...round, draft: round.draft.slice(0, round.kept) }));
}

// Return the counts of some rounds, and their speedup over plain decoding if each round takes the
// typical time of a round with as many drafted tokens.
/**
 * @param {StopRound[]} rounds
 * @param {number[]} seconds
 * @returns {StopNumbers}
 */
export function stopNumbers(rounds, seconds) {
  const sum = (/** @type {(round: StopRound) => number} */ of) =>
    rounds.reduce((total, round) => total + of(round), 0);
  const tokens = sum(({ kept, extra }) => kept + Number(extra !== null));
  const spent = sum(({ draft }) => seconds[draft.length]);
  return {
    drafted: sum(({ draft }) => draft.length),
    kept: sum(({ kept }) => kept),
    rounds: rounds.length,
    tokens,
    speedup: (tokens * seconds[0]) / spent,
  };
}

// Return the median time of each kind of round over the passes.
/** @param {number[][]} passes */
export function typicalSeconds(passes) {
  return passes[0].map((_, drafted) => {
    const sorted = passes.map((each) => each[drafted]).sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)];
  });
}

// Return the ways to end a draft on a task, with their rounds: the fixed lengths, the adaptive
// length and the oracle.
/**
 * @param {StopsMessage | null} found
 * @param {string} task
 */
export function waysOf(found, task) {
  const rows = (found?.rows ?? []).filter((row) => row.task === task);
  const fixed = rows.filter(({ policy }) => policy === FIXED);
  const adaptive = rows.find(({ policy }) => policy !== FIXED);
  const longest = fixed.at(-1);
  if (!adaptive || !longest) return null;
  return { fixed, longest, adaptive, oracle: oracleRounds(longest.rounds) };
}

// Return the fixed length that is fastest on a task.
/**
 * @param {StopsMessage} found
 * @param {string} task
 * @param {number[]} seconds
 */
export function bestFixed(found, task, seconds) {
  const { fixed } = /** @type {NonNullable<ReturnType<typeof waysOf>>} */ (waysOf(found, task));
  const speed = (/** @type {StopRow} */ row) => stopNumbers(row.rounds, seconds).speedup;
  return fixed.reduce((best, row) => (speed(row) > speed(best) ? row : best));
}

// Return the values of the lesson about a task. `other` is the task whose best length is tried on
// this task.
/**
 * @param {StopsMessage | null} found
 * @param {string} task
 * @param {string} [other]
 * @param {number[]} [seconds] the times of rounds, usually the typical ones
 */
export function stopValues(found, task, other, seconds) {
  const ways = waysOf(found, task);
  if (!found || !ways) return {};
  const times = seconds ?? typicalSeconds(found.seconds);
  const best = bestFixed(found, task, times);
  const speed = (/** @type {StopRound[]} */ rounds) => stopNumbers(rounds, times);
  const [fixed, adaptive, oracle] = [best.rounds, ways.adaptive.rounds, ways.oracle].map(speed);
  const moved = other ? bestFixed(found, other, typicalSeconds(found.seconds)).K : best.K;
  const kept = ways.fixed.find(({ K }) => K === moved) ?? best;
  const movedSpeed = speed(kept.rounds).speedup;
  return {
    K: ways.longest.K,
    best: best.K,
    best_speed: fixed.speedup,
    best_drafted: fixed.drafted,
    best_kept: fixed.kept,
    adaptive_speed: adaptive.speedup,
    adaptive_drafted: adaptive.drafted,
    adaptive_kept: adaptive.kept,
    oracle_speed: oracle.speedup,
    oracle_drafted: oracle.drafted,
    adaptive_share: adaptive.speedup / fixed.speedup,
    oracle_gain: oracle.speedup / fixed.speedup - 1,
    moved,
    moved_speed: movedSpeed,
    adaptive_over_moved: adaptive.speedup / movedSpeed,
  };
}

const DECIDING = ["adaptive_share", "oracle_gain", "adaptive_over_moved"];

// Return what the passes allow for the values that decide a question.
/**
 * @param {StopsMessage | null} found
 * @param {string} task
 * @param {string} [other]
 * @returns {Record<string, Possible>}
 */
export function stopPossible(found, task, other) {
  if (!found) return {};
  const passes = found.seconds.map((seconds) => stopValues(found, task, other, seconds));
  return Object.fromEntries(
    DECIDING.map((name) => {
      const all = passes.map((values) => /** @type {any} */ (values)[name]);
      const [low, high] = [Math.min(...all), Math.max(...all)];
      const percent = (/** @type {number} */ value) => `${(100 * value).toFixed(0)} %`;
      const words = `With the times of each pass alone, it is ${percent(low)} to ${percent(high)}.`;
      return [name, { values: [low, high], words }];
    }),
  );
}
