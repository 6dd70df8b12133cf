// The values of the measurement that compares two rules on the same drafts.

/** @typedef {{ method: string, K: number, drafts: number, token: number, block: number, low: number, high: number }} GainRow */

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
  const drawn = rows.filter(({ method }) => method !== "prompt-lookup");
  const copied = rows.find(({ method }) => method === "prompt-lookup");
  const usual = drawn.find(({ K }) => K === 5);
  const [one, long] = [drawn[0], drawn.length > 1 ? drawn.at(-1) : undefined];
  return {
    temperature: found ? String(found.temperature) : undefined, prompts: found?.prompts,
    one_gain: one && gainOf(one), usual: usual?.K, usual_token: usual?.token, usual_block: usual?.block,
    usual_gain: usual && gainOf(usual), usual_low: usual?.low, usual_high: usual?.high,
    long: long?.K, long_gain: long && gainOf(long), copied: copied?.K, copied_gain: copied && gainOf(copied), copied_accepted: copied?.block,
  };
}
