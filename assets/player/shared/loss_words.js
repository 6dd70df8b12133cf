// The words by which every page marks a lossy rule.

// Return the words for a lossy rule, or "" for a lossless one. At temperature 0 the target's
// distribution is a single token, and a rule that accepts by a threshold keeps exactly that token.
/**
 * @param {{ lossless: boolean } | undefined} rule
 * @param {boolean} isGreedy
 */
export function lossOf(rule, isGreedy) {
  if (!rule || rule.lossless) return "";
  return isGreedy
    ? "lossy rule, without effect at temperature 0"
    : "lossy: not the target’s distribution";
}
