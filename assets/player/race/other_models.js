// Finds a pair of models that can run the methods which the chosen models cannot.

import { counted } from "../shared/number_words.js";

// Return the pair that can run most of the refused methods. Among equals, prefer a pair on this
// machine, then the first one in the list. Return null if no pair can run any.
/**
 * @param {PairOffer[]} pairs
 * @param {string[]} refused names of the methods that the chosen models cannot run
 */
export function pairFor(pairs, refused) {
  const able = (/** @type {PairOffer} */ pair) =>
    refused.filter((name) => !(name in (pair.refusals ?? {}))).length;
  const known = pairs.filter(({ name }) => name !== "custom"); // the models of a custom pair are unknown
  const [best] = known.sort(
    (a, b) => able(b) - able(a) || Number(b.is_here ?? false) - Number(a.is_here ?? false),
  );
  return best && able(best) ? { pair: best, count: able(best) } : null;
}

// Return, for example, "7 more methods need other models:".
/** @param {number} count */
export function moreWords(count) {
  return `${counted(count, "more method")} ${count === 1 ? "needs" : "need"} other models:`;
}

// Return what a method needs. The name of the pair is removed from the text, because the heading
// already names it.
/** @param {string} refusal */
export function needOf(refusal) {
  return refusal.replace(/; the pair .*? has none/g, "");
}
