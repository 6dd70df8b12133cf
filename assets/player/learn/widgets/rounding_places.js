// The positions of a text whose logits were computed twice, with sums in two different orders: how
// small the gap of the two best logits is at each position, and how far rounding moved it. Also
// sums of 32-bit numbers in any order.

/** @typedef {{ token: string, second: string, other: string, margin: number, moved: number }} RoundedPlace */

// Return the values of a text for a lesson. They are undefined if nothing was measured.
/** @param {RoundedPlace[]} places */
export function roundingNumbers(places) {
  const closest = places.reduce(
    (/** @type {RoundedPlace | null} */ least, each) =>
      least && least.margin <= each.margin ? least : each,
    null,
  );
  const moved = places.map((each) => each.moved).toSorted((a, b) => a - b);
  return {
    places: places.length || undefined,
    first: closest?.token,
    second: closest?.second,
    margin: closest?.margin,
    most_moved: moved.at(-1),
    typical_moved: moved[Math.floor(moved.length / 2)],
    near: places.length ? places.filter(isNear).length : undefined,
    switched: places.length
      ? places.filter(({ token, other }) => token !== other).length
      : undefined,
  };
}

// Return whether rounding moved the logits by at least the gap between the two best. If so, the
// best token may depend on the order of the sums.
/** @param {RoundedPlace} place */
export function isNear({ margin, moved }) {
  return margin <= moved;
}

// Return the sum of the numbers in the given order, where each step is rounded to 32 bits as a
// processor does.
/** @param {number[]} numbers */
export function sum32(numbers) {
  return numbers.reduce((sum, each) => Math.fround(sum + Math.fround(each)), 0);
}

// Return the same items in a random order.
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
