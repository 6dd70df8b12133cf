// Sizes in memory in words: one of them, and what a method holds beside the target.

const WHOLE = 1e8; // a sum from here on has whole megabytes, a smaller one tenths

// Two figures, three between 100 MB and 1 GB.
/** @param {number} count */
export function bytes(count) {
  const size = rounded(count);
  if (size >= 1e9) return `${(size / 1e9).toFixed(size < 1e10 ? 1 : 0)} GB`;
  if (size < 1e5) return `${(size / 1e3).toFixed(size < 1e4 ? 1 : 0)} kB`;
  return megabytes(size, size < 1e7 ? 1 : 0);
}

/** @param {number} count */
function rounded(count) {
  if (count >= 1e5 && count < 1e7) return Math.round(count / 1e5) * 1e5;
  return Number(count.toPrecision(count >= 1e8 && count < 1e9 ? 3 : 2));
}

// Weights, caches and their sum, all to the same place, so that the parts add up to the sum beside them. `cache`: null
// where it was not seen, which counts as nothing.
/**
 * @param {number} weights
 * @param {number | null | undefined} cache
 */
export function heldMemory(weights, cache) {
  const parts = [weights, cache ?? 0];
  const whole = parts[0] + parts[1];
  if (whole < 1e5 || whole >= 1e9) return { weights: bytes(parts[0]), cache: bytes(parts[1]), sum: bytes(whole) };
  const [step, places] = whole < WHOLE ? [1e5, 1] : [1e6, 0];
  const [first, second] = parts.map((part) => Math.round(part / step) * step);
  const shown = (/** @type {number} */ part, /** @type {number} */ size) => (size ? megabytes(size, places) : bytes(part));
  return { weights: shown(parts[0], first), cache: shown(parts[1], second), sum: megabytes(first + second, places) };
}

/**
 * @param {number} size
 * @param {number} places
 */
function megabytes(size, places) {
  return `${(size / 1e6).toFixed(places)} MB`;
}
