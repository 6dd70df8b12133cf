// Sizes of memory in words: a single size, and the memory that a method needs in addition to the
// target.

// Bytes; from this sum on, sizes are written in whole megabytes, below it in tenths of a megabyte.
const WHOLE = 1e8;

// Write a size with two significant figures, or three between 100 MB and 1 GB.
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

// Write the sizes of weights and caches, and their sum. All have the same number of decimals, so
// that the shown parts add up to the shown sum. If `cache` is null, the cache was not measured and
// counts as 0.
/**
 * @param {number} weights
 * @param {number | null | undefined} cache
 */
export function heldMemory(weights, cache) {
  const parts = [weights, cache ?? 0];
  const whole = parts[0] + parts[1];
  if (whole < 1e5 || whole >= 1e9)
    return { weights: bytes(parts[0]), cache: bytes(parts[1]), sum: bytes(whole) };
  const [step, places] = whole < WHOLE ? [1e5, 1] : [1e6, 0];
  const [first, second] = parts.map((part) => Math.round(part / step) * step);
  const shown = (/** @type {number} */ part, /** @type {number} */ size) =>
    size ? megabytes(size, places) : bytes(part);
  return {
    weights: shown(parts[0], first),
    cache: shown(parts[1], second),
    sum: megabytes(first + second, places),
  };
}

/**
 * @param {number} size
 * @param {number} places
 */
function megabytes(size, places) {
  return `${(size / 1e6).toFixed(places)} MB`;
}
