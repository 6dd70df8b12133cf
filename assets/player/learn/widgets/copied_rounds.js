// The numbers of two drafters that copied drafts for the same conversation.

/** @typedef {{ matched: string[], draft: string[], kept: number, extra: string | null }} CopiedRound */
/** @typedef {{ method: string, K: number, rounds: CopiedRound[] }} CopiedRow */
/** @typedef {{ model: string, depth: number, turns: { role: string, content: string }[], rows: CopiedRow[] }} CopiesMessage */

/** @param {CopiedRow | undefined} row */
export function rowNumbers(row) {
  if (!row) return {};
  const { rounds } = row;
  const sum = (/** @type {(round: CopiedRound) => number} */ of) =>
    rounds.reduce((total, round) => total + of(round), 0);
  const [drafted, kept] = [sum(({ draft }) => draft.length), sum((round) => round.kept)];
  const tokens = kept + sum(({ extra }) => Number(extra !== null));
  return {
    rounds: rounds.length,
    tokens,
    per_round: tokens / rounds.length,
    drafted,
    kept,
    used: drafted ? kept / drafted : 0,
    longest: Math.max(...rounds.map(({ draft }) => draft.length)),
    match: Math.max(...rounds.map(({ matched }) => matched.length)),
  };
}

// Return the values of both drafters at a draft length. The name of a value begins with that of the
// method; the gain is that of the second drafter over the first.
/**
 * @param {CopiesMessage | null} found
 * @param {number} length
 */
export function copiedNumbers(found, length) {
  const rows = (found?.rows ?? []).filter(({ K }) => K === length);
  const lengths = found?.rows.map(({ K }) => K) ?? [];
  const [first, second] = rows.map((row) => rowNumbers(row).per_round);
  const gain = first && second ? second / first : undefined;
  const named = rows.flatMap((row) => {
    const numbers = /** @type {any} */ (rowNumbers(row));
    return NAMES.map((name) => [`${row.method.replaceAll("-", "_")}_${name}`, numbers[name]]);
  });
  return {
    model: found?.model,
    tree_depth: found?.depth,
    K: found ? length : undefined,
    long: found ? Math.max(...lengths) : undefined,
    gain,
    ...Object.fromEntries(named),
  };
}

const NAMES = ["rounds", "tokens", "per_round", "drafted", "kept", "used", "longest", "match"];

// Return the index of the first round whose draft was not accepted to its end, or the last round.
/** @param {Pick<CopiedRound, "draft" | "kept">[]} rounds */
export function firstFailure(rounds) {
  const at = rounds.findIndex(({ draft, kept }) => kept < draft.length);
  return at < 0 ? rounds.length - 1 : at;
}
