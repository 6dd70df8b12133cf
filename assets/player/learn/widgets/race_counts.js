// Computes the counts of a race for an exercise, and its rates after each token.

/** @typedef {{ task: string, length: number, plain: { tokens: number, seconds: number }, drafted: { tokens: number, seconds: number }, speedups: number[], rounds: string[][] }} RaceMessage `speedups` are those of all repeats; the times are those of the middle one */

const EARLY = 20; // the number of examined tokens after which the early acceptance rate is taken

// Return the values of a race for an exercise.
/** @param {RaceMessage | null} found */
export function raceNumbers(found) {
  if (!found) return {};
  const { plain, drafted, rounds, task, length } = found;
  const outcomes = rounds.flat();
  const count = (/** @type {string} */ name) => outcomes.filter((each) => each === name).length;
  const [accepted, rejected, unread] = ["accepted", "rejected", "unreached"].map(count);
  const [slow, fast] = [plain, drafted].map(({ tokens, seconds }) => tokens / seconds);
  const { acceptance } = runningRates(rounds);
  return {
    task,
    length,
    plain_tokens: plain.tokens,
    plain_seconds: plain.seconds,
    drafted_tokens: drafted.tokens,
    drafted_seconds: drafted.seconds,
    plain_rate: slow,
    drafted_rate: fast,
    speedup: fast / slow,
    inverse: slow / fast,
    saved: plain.seconds - drafted.seconds,
    looks: rounds.length,
    guessed: outcomes.length,
    accepted,
    rejected,
    unread,
    examined: accepted + rejected,
    rate: accepted / (accepted + rejected),
    rejection: rejected / (accepted + rejected),
    used: accepted / outcomes.length,
    failed: (rejected + unread) / outcomes.length,
    per_look: drafted.tokens / rounds.length,
    early: EARLY,
    early_rate: acceptance[EARLY - 1],
  };
}

// Return the range of the speedups that the repeats measured.
/**
 * @param {RaceMessage | null} found
 * @returns {Record<string, Possible>}
 */
export function racePossible(found) {
  if (!found) return {};
  const [low, high] = [Math.min(...found.speedups), Math.max(...found.speedups)];
  return {
    speedup: {
      values: [low, high],
      words: `${found.speedups.length} repeats came to between ${low.toFixed(2)}× and ${high.toFixed(2)}×.`,
    },
  };
}

// Return the acceptance and the rejection rate after each examined token.
/** @param {string[][]} rounds */
export function runningRates(rounds) {
  let accepted = 0;
  const examined = rounds.flat().filter((each) => each !== "unreached");
  const acceptance = examined.map(
    (each, at) => (accepted += Number(each === "accepted")) / (at + 1),
  );
  return { acceptance, rejection: acceptance.map((rate) => 1 - rate) };
}
