// The quiz of the bug zoo: it chooses a wrong rule, and the other rules that it offers as answers.

// The rules that the quiz uses. For each of them, a few thousand draws are enough to see that it is
// wrong.
const PLAIN = [
  "resampled-from-target",
  "equal-argmax",
  "certain-acceptance",
  "first-unverified",
  "softmax-of-residual",
  "stale-cache",
  "no-bonus",
];
const NAMES = 4;

// Choose the rule of the quiz and the rules to offer. `random` is a function like Math.random.
/**
 * @param {Specimen[]} specimens
 * @param {() => number} random
 */
export function suspects(specimens, random) {
  const known = specimens.filter(({ name }) => PLAIN.includes(name));
  const shuffled = known
    .map((each) => ({ each, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ each }) => each);
  const names = shuffled.slice(0, NAMES);
  return { dealt: names[Math.floor(random() * names.length)].name, names };
}

// Return the token that was drawn too often by the largest amount, and its position.
/** @param {{ text: string, p: number, count: number }[][]} cells the bars of each position; the last bar holds all other tokens */
export function largestGap(cells) {
  const gaps = cells.flatMap((bars, cell) => {
    const total = Math.max(
      1,
      bars.reduce((sum, { count }) => sum + count, 0),
    );
    return bars.slice(0, -1).map(({ text, p, count }) => ({ text, p, came: count / total, cell }));
  });
  return gaps.reduce(
    (most, each) => (each.came - each.p > most.came - most.p ? each : most),
    gaps[0],
  );
}
