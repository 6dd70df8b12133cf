// The numbers of an answer that had to match a grammar, with and without forced tokens as drafts.

/** @typedef {{ text: string, allowed: number }} MaskedToken */
/** @typedef {{ drafts_forced: boolean, rounds: number, tokens: number, forced: number, is_same: boolean }} ForcedRow */
/** @typedef {{ model: string, K: number, prompt: string, grammar: string, tokens: MaskedToken[], rows: ForcedRow[] }} ForcedMessage */

/** @param {MaskedToken} token */
export function isForced({ allowed }) {
  return allowed === 1;
}

// Return the mean number of tokens that a round yields. The prompt's own forward writes the first
// token, so no round yields it.
/** @param {ForcedRow} row */
export function perRound({ rounds, tokens }) {
  return (tokens - 1) / rounds;
}

/** @param {ForcedMessage | null} found */
export function freeNumbers(found) {
  if (!found) return {};
  const free = found.tokens.filter(isForced).length;
  const [plain, forced] = found.rows;
  return {
    model: found.model,
    K: found.K,
    tokens: found.tokens.length,
    free,
    share: free / found.tokens.length,
    drafted: forced.forced,
    plain_rounds: plain.rounds,
    forced_rounds: forced.rounds,
    plain_per_round: perRound(plain),
    forced_per_round: perRound(forced),
    gain: perRound(forced) / perRound(plain),
  };
}

// Return how many forced tokens were marked, and how many others. `marked` has the indices of the
// marked tokens.
/**
 * @param {MaskedToken[]} tokens
 * @param {Set<number>} marked
 */
export function markedCounts(tokens, marked) {
  const right = [...marked].filter((at) => isForced(tokens[at])).length;
  return { right, wrong: marked.size - right };
}
