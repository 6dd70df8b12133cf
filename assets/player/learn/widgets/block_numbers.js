// The values of the measurement that compares two rules on the same drafts.

/** @typedef {{ is_copied: boolean, K: number, drafts: number, token: number, block: number, low: number, high: number }} GainRow */

const USUAL = 5; // the draft length that the lesson asks about
const ROUNDING = 1e-6; // a smaller gain comes only from rounding

/** @param {GainRow} row */
export function gainOf({ token, block }) {
  const gain = token > 0 ? block / token - 1 : 0;
  return Math.abs(gain) < ROUNDING ? 0 : gain;
}

// Return the values of a measurement: its shortest and longest drawn draft, the one with K = 5, and
// the copied draft. A value of a row that was not measured is undefined.
/** @param {{ temperature: number, prompts: number, rows: GainRow[] } | null} found */
export function blockNumbers(found) {
  const rows = found?.rows ?? [];
  const drawn = rows.filter(({ is_copied: isCopied }) => !isCopied);
  const copied = rows.find(({ is_copied: isCopied }) => isCopied);
  const usual = drawn.find(({ K }) => K === USUAL);
  const [one, long] = [drawn[0], drawn.length > 1 ? drawn.at(-1) : undefined];
  return {
    temperature: found ? String(found.temperature) : undefined,
    prompts: found?.prompts,
    one_gain: one && gainOf(one),
    usual: usual?.K,
    usual_token: usual?.token,
    usual_block: usual?.block,
    usual_gain: usual && gainOf(usual),
    usual_low: usual?.low,
    usual_high: usual?.high,
    long: long?.K,
    long_gain: long && gainOf(long),
    copied: copied?.K,
    copied_gain: copied && gainOf(copied),
    copied_accepted: copied?.block,
  };
}

// Return the range of the gain at the usual draft length: the prompts are a sample, so the gain is
// not known exactly.
/**
 * @param {{ rows: GainRow[] } | null} found
 * @returns {Record<string, Possible>}
 */
export function blockPossible(found) {
  const usual = found?.rows.find(({ is_copied: isCopied, K }) => !isCopied && K === USUAL);
  if (!usual) return {};
  const { low, high } = usual;
  const words = `The gain is ${(100 * low).toFixed(1)} % to ${(100 * high).toFixed(1)} % in 95 % of the bootstrap samples over the prompts.`;
  return { usual_gain: { values: [low, high], words } };
}
