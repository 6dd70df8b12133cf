// Who may have done it: a rule of the zoo that is dealt, and the names beside its own. Knows no page.

// Differences that one can see in the charts of a few thousand draws: what is dealt is one of these.
const PLAIN = ["resampled-from-target", "equal-argmax", "certain-acceptance", "first-unverified", "softmax-of-residual", "stale-cache", "no-bonus"];
const NAMES = 4;

// `random` as Math.random.
/**
 * @param {Specimen[]} specimens
 * @param {() => number} random
 */
export function suspects(specimens, random) {
  const known = specimens.filter(({ name }) => PLAIN.includes(name));
  const shuffled = known.map((each) => ({ each, at: random() })).sort((a, b) => a.at - b.at).map(({ each }) => each);
  const names = shuffled.slice(0, NAMES);
  return { dealt: names[Math.floor(random() * names.length)].name, names };
}

// The token that came out too often by most, and in which of the places.
/** @param {{ text: string, p: number, count: number }[][]} cells the last bar of each all others */
export function largestGap(cells) {
  const gaps = cells.flatMap((bars, cell) => {
    const total = Math.max(1, bars.reduce((sum, { count }) => sum + count, 0));
    return bars.slice(0, -1).map(({ text, p, count }) => ({ text, p, came: count / total, cell }));
  });
  return gaps.reduce((most, each) => (each.came - each.p > most.came - most.p ? each : most), gaps[0]);
}
