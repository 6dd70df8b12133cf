// The verdicts of two rules on the same recorded chain with the same draws: token by token, and
// block verification. The round was judged by block verification, so its record has the thresholds
// h.

/** @typedef {{ p: number, q: number, ratio: number, accept: number, carried: number, h: number, u: number }} ChainGuess `accept` is min(1, p/q); `carried` is the product of the ratios so far, cut to 1 after each guess */

/**
 * @param {Round} round
 * @returns {ChainGuess[]}
 */
export function chainGuesses(round) {
  let carried = 1;
  return round.indices.map((node) => {
    const { p, q, accept: h, u } = round.verdict(node);
    const ratio = q > 0 ? p / q : 0;
    carried = Math.min(1, carried * ratio);
    return { p, q, ratio, accept: Math.min(1, ratio), carried, h, u: u ?? 1 };
  });
}

// Return how many guesses token by token accepts: all before the first failure.
/** @param {ChainGuess[]} guesses */
export function keptByToken(guesses) {
  const failed = guesses.findIndex(({ u, accept }) => u >= accept);
  return failed < 0 ? guesses.length : failed;
}

// Return how many guesses block verification accepts: all up to the last one whose draw is below h.
/** @param {ChainGuess[]} guesses */
export function keptAsBlock(guesses) {
  return guesses.findLastIndex(({ u, h }) => u < h) + 1;
}

// Return the guesses in the order in which a rule examines them, up to the one that decides.
/**
 * @param {ChainGuess[]} guesses
 * @param {boolean} isBlock
 */
export function examined(guesses, isBlock) {
  const all = guesses.map((_, at) => at);
  if (!isBlock) return all.slice(0, keptByToken(guesses) + 1);
  return all.slice(Math.max(0, keptAsBlock(guesses) - 1)).reverse();
}

// Return S of a guess that is not the last: the sum of max(0, `carried` p - q) over all tokens
// after the guess. S follows from the recorded h = S / (S + 1 - carried).
/** @param {ChainGuess} guess */
export function owedAfter({ h, carried }) {
  return h < 1 ? (h * (1 - carried)) / (1 - h) : undefined;
}
