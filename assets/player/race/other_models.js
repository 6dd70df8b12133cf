// Which of the pairs can do the methods that the chosen models cannot.

import { counted } from "../shared/number_words.js";

// The pair that can do the most of `refused`, of equals the one that is here and stands first; null where
// none can do any.
/**
 * @param {PairOffer[]} pairs
 * @param {string[]} refused names of methods
 */
export function pairFor(pairs, refused) {
  const able = (/** @type {PairOffer} */ pair) => refused.filter((name) => !(name in (pair.refusals ?? {}))).length;
  const known = pairs.filter(({ name }) => name !== "custom"); // whose models are not known
  const [best] = known.sort((a, b) => able(b) - able(a) || Number(b.is_here ?? false) - Number(a.is_here ?? false));
  return best && able(best) ? { pair: best, count: able(best) } : null;
}

// Such as "7 more methods need other models:".
/** @param {number} count */
export function moreWords(count) {
  return `${counted(count, "more method")} ${count === 1 ? "needs" : "need"} other models:`;
}

// What a method needs, without the pair that lacks it: the heading says that.
/** @param {string} refusal */
export function needOf(refusal) {
  return refusal.replace(/; the pair .*? has none/g, "");
}
