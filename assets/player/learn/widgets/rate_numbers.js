// The numbers with which engines report drafts, and the conversion of one into the others. Every
// draft is a chain of K tokens. docs/explanation/rates.md has the definitions.

/** @typedef {{ alpha: number | undefined, used: number, length: number }} Rates alpha: accepted / examined; used: accepted / drafted; length: tokens per forward that verifies a draft */

// Return the rates that follow from the share of drafts accepted up to each position.
/** @param {number[]} positions */
export function fromPositions(positions) {
  const accepted = positions.reduce((sum, share) => sum + share, 0); // accepted tokens per draft
  // Examined tokens per draft: the first one, and each one after an accepted token.
  const examined = 1 + accepted - (positions.at(-1) ?? 0);
  return { alpha: accepted / examined, used: accepted / positions.length, length: 1 + accepted };
}

// Return the rates that follow from the tokens per forward or from accepted / drafted. The
// acceptance rate does not follow from these.
/**
 * @param {"length" | "used"} name
 * @param {number} value
 * @param {number} K
 * @returns {Rates | null} null if no run with drafts of K tokens has this number
 */
export function fromTotal(name, value, K) {
  const used = name === "length" ? (value - 1) / K : value;
  if (!(used >= 0 && used <= 1 && Number.isInteger(K) && K >= 1)) return null;
  return { alpha: undefined, used, length: 1 + K * used };
}

// Return the numbers of a race, counting only rounds with a complete draft.
/**
 * @param {string[][]} rounds
 * @param {number} K
 */
export function rateNumbers(rounds, K) {
  const whole = rounds.filter((round) => round.length === K);
  const count = (/** @type {string[]} */ outcomes, /** @type {string} */ name) =>
    outcomes.filter((each) => each === name).length;
  const accepted = count(whole.flat(), "accepted");
  const examined = accepted + count(whole.flat(), "rejected");
  const positions = Array.from(
    { length: K },
    (_, at) =>
      count(
        whole.map((round) => round[at]),
        "accepted",
      ) / whole.length,
  );
  return {
    drafts: whole.length,
    drafted: whole.length * K,
    accepted,
    examined,
    positions,
    alpha: accepted / examined,
    used: accepted / (whole.length * K),
    length: 1 + accepted / whole.length,
  };
}
