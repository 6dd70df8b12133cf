// Places of a text whose logits were computed twice, in two orders: how near each is to a tie, how far
// rounding moved it, and sums in 32-bit numbers in any order. Knows no page.

/** @typedef {{ token: string, second: string, other: string, margin: number, moved: number }} RoundedPlace */

// The numbers of a text, for a lesson; undefined while there is none.
/** @param {RoundedPlace[]} places */
export function roundingNumbers(places) {
  const closest = places.reduce((/** @type {RoundedPlace | null} */ least, each) => (least && least.margin <= each.margin ? least : each), null);
  const moved = places.map((each) => each.moved).toSorted((a, b) => a - b);
  return {
    places: places.length || undefined,
    first: closest?.token, second: closest?.second, margin: closest?.margin,
    most_moved: moved.at(-1), typical_moved: moved[Math.floor(moved.length / 2)],
    near: places.length ? places.filter(isNear).length : undefined,
    switched: places.length ? places.filter(({ token, other }) => token !== other).length : undefined,
  };
}

// Rounding is as large as the lead: which token is best may depend on the order of sums.
/** @param {RoundedPlace} place */
export function isNear({ margin, moved }) {
  return margin <= moved;
}

// The sum of numbers of 32 bits in this order, each step rounded as a processor does it.
/** @param {number[]} numbers */
export function sum32(numbers) {
  return numbers.reduce((sum, each) => Math.fround(sum + Math.fround(each)), 0);
}

// The same numbers in another order.
/**
 * @template Item
 * @param {Item[]} items
 * @param {() => number} [chance]
 */
export function shuffled(items, chance = Math.random) {
  const made = [...items];
  for (let at = made.length - 1; at > 0; at -= 1) {
    const other = Math.floor(chance() * (at + 1));
    [made[at], made[other]] = [made[other], made[at]];
  }
  return made;
}
