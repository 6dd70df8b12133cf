// The points of a sweep for lessons: the shown value of each point, its setting in words, and the
// best and the worst point.

/** @typedef {{ title: string, hasOne: boolean, of: (point: any) => number, written: (value: number) => string, note: (point: any) => string, error: (point: any) => number }} Shown `error` is the standard error of a counted value; a timed one has 0, because its repeats show its noise */

const SURE = 2; // a counted value has a range of this many standard errors on both sides

const tokens = (/** @type {number | null} */ value) =>
  value === null ? "" : `${value.toFixed(2)} tokens a look`;

/** @type {Record<string, Shown>} */
export const SHOWN = {
  speedup: {
    title: "Speed compared with plain decoding",
    hasOne: true,
    of: ({ speedup }) => speedup,
    written: (value) => `${value.toFixed(2)}×`,
    note: (point) => [spreadWords(point), passWords(point)].filter(Boolean).join("; "),
    error: () => 0,
  },
  tokens: {
    title: "Tokens from one look of the target",
    hasOne: false,
    of: ({ block_efficiency: each }) => each ?? 0,
    written: (value) => value.toFixed(2),
    note: (point) => [passWords(point), shortWords(point)].filter(Boolean).join("; "),
    error: tokensError,
  },
  acceptance: {
    title: "Share of examined guesses that pass",
    hasOne: false,
    of: ({ acceptance_rate: rate }) => rate ?? 0,
    written: (value) => `${Math.round(100 * value)} %`,
    note: ({ block_efficiency: each }) => tokens(each),
    error: rateError,
  },
};

// Say which share of the examined drafted tokens was accepted. In a tree, count positions instead:
// a position is accepted if one of its siblings is.
/** @param {any} point */
function passWords({ acceptance_rate: rate, setting }) {
  if (rate === null) return "";
  return `${Math.round(100 * rate)} % of examined ${setting?.tree ? "places" : "guesses"} pass`;
}

// Say why the rounds have fewer tokens than their share of accepted drafts suggests. At the end of
// a text a round may have no space for a drafted token, or none for the target's own token.
/** @param {any} point */
function shortWords({ rounds, block_efficiency: each, acceptance_by_depth: depths }) {
  if (!depths?.length || each === null) return "";
  const passed = depths.reduce(
    (/** @type {number} */ sum, /** @type {any} */ depth) => sum + depth.passed,
    0,
  );
  const bare = Math.round(rounds - depths[0].reached);
  const cut = Math.round(rounds + passed - rounds * each);
  const parts = [
    bare > 0 && `${bare} examined nothing`,
    cut > 0 && `${cut} ${cut === 1 ? "was" : "were"} cut short by the text’s end`,
  ].filter(Boolean);
  return parts.length ? `of ${Math.round(rounds)} looks ${parts.join(" and ")}` : "";
}

// Say by how much the repeats of one setting differ, so that learners can compare it with the
// difference between settings.
/** @param {any} point */
function spreadWords({ speedups, speedup_spread: spread }) {
  if (!spread) return "";
  if (speedups.length < 2) return "one run";
  return `${spread[0].toFixed(2)} to ${spread[1].toFixed(2)} in ${speedups.length} runs`;
}

// Plain decoding was measured several times, and `ratios` compare neighbouring measurements. Return
// the lowest and the highest ratio. All measurements do the same work, so only noise makes the
// ratios differ from 1.
/** @param {number[]} ratios speed ratios of neighbouring measurements of plain decoding */
export function noiseRange(ratios) {
  return ratios.length
    ? { noise_low: Math.min(...ratios, 1), noise_high: Math.max(...ratios, 1) }
    : {};
}

/** @param {number[]} ratios */
export function noiseWords(ratios) {
  const { noise_low: low, noise_high: high } = noiseRange(ratios);
  if (low === undefined || high === undefined) return "";
  return `Plain decoding compared with itself gave ${low.toFixed(2)}× to ${high.toFixed(2)}×: differences of this size are noise.`;
}

/** @type {Record<string, (value: any, setup: any) => string>} */
const WORDS = {
  "draft-length": (value) => `K = ${value}`,
  temperature: (value) => `temperature ${value}`,
  "batch-size": (value) => (value === 1 ? "1 text" : `${value} texts at once`),
  "output-length": (value) => `${value} tokens`,
  task: (value) => value,
  tree: (value) => treeWords(childrenOf(value)),
  method: (value, { methods }) =>
    methods.find((/** @type {any} */ each) => each.name === value)?.title ?? value,
  pair: (value, { pairs }) =>
    pairs.find((/** @type {any} */ each) => each.name === value)?.title ?? value,
};

// Return the standard error of the tokens per round. The share of rounds that pass a depth says how
// often a round accepts at least so many tokens, so the counts by depth give the variance.
/** @param {any} point */
function tokensError({ rounds, acceptance_by_depth: depths }) {
  const sum = (/** @type {(each: any) => number} */ of) =>
    (depths ?? []).reduce(
      (/** @type {number} */ whole, /** @type {any} */ each) => whole + of(each),
      0,
    ) / rounds;
  const mean = sum(({ passed }) => passed);
  return Math.sqrt(
    Math.max(0, sum(({ depth, passed }) => (2 * depth - 1) * passed) - mean * mean) / rounds,
  );
}

// Return the standard error of the acceptance rate.
/** @param {any} point */
function rateError({ acceptance_rate: rate, acceptance_by_depth: depths }) {
  const examined = (depths ?? []).reduce(
    (/** @type {number} */ whole, /** @type {any} */ { reached }) => whole + reached,
    0,
  );
  return rate === null || !examined ? 0 : Math.sqrt((rate * (1 - rate)) / examined);
}

// Return the range that a measurement allows for a point: that of its repeats, or two standard
// errors on both sides of a counted value. A single timed run is as uncertain as repeated
// measurements of plain decoding (`noise`).
/**
 * @param {any} point
 * @param {Shown} shown
 * @param {number[]} noise
 * @returns {[number, number]}
 */
export function rangeOf(point, shown, noise) {
  const value = shown.of(point);
  if (!shown.hasOne) return [value - SURE * shown.error(point), value + SURE * shown.error(point)];
  if (point.speedups.length > 1) return [Math.min(...point.speedups), Math.max(...point.speedups)];
  const by = Math.max(...noise.map((ratio) => Math.max(ratio, 1 / ratio)));
  return noise.length ? [value / by, value * by] : [0, Infinity];
}

// Return the results that the noise of the measurement allows, for each value that decides a
// question about a sweep.
/**
 * @param {any[]} points
 * @param {Shown} shown
 * @param {(point: any) => string} words
 * @param {number[]} noise speed ratios of neighbouring measurements of plain decoding
 * @returns {Record<string, Possible>}
 */
export function possibleValues(points, shown, words, noise) {
  if (!points.length) return {};
  const numbers = points.map(shown.of);
  const ranges = points.map((point) => rangeOf(point, shown, noise));
  const told = (/** @type {number} */ at) => {
    const [low, high] = ranges[at].map((each) =>
      each === Infinity ? "any value" : shown.written(Math.max(0, each)),
    );
    return `${words(points[at])} came to ${shown.written(numbers[at])}; the measurement allows ${low} to ${high}.`;
  };
  // Two counted values differ if their difference is more than twice its standard error.
  const areClose = (/** @type {number} */ one, /** @type {number} */ other) => {
    if (shown.hasOne)
      return ranges[one][0] <= ranges[other][1] && ranges[other][0] <= ranges[one][1];
    return (
      Math.abs(numbers[one] - numbers[other]) <=
      SURE * Math.hypot(shown.error(points[one]), shown.error(points[other]))
    );
  };
  const rivals = (/** @type {number} */ end) => {
    const at = numbers.indexOf(end);
    const values = [...points.keys()].filter((each) => areClose(at, each));
    return { values, words: values.map(told).join(" ") };
  };
  const last = points.length - 1;
  const [first, end] = [ranges[0], ranges[last]];
  return {
    winner: rivals(Math.max(...numbers)),
    lowest: rivals(Math.min(...numbers)),
    ...(shown.hasOne && {
      first_speedup: { values: first, words: told(0) },
      last_speedup: { values: end, words: told(last) },
    }),
    ...(shown.hasOne && {
      trend: { values: [end[0] / first[1], end[1] / first[0]], words: `${told(0)} ${told(last)}` },
    }),
  };
}

// Describe the settings that a sweep varies.
/**
 * @param {Record<string, any>} setting
 * @param {any} setup
 */
export function settingWords(setting, setup) {
  return Object.entries(setting)
    .map(([axis, value]) => WORDS[axis]?.(value, setup) ?? `${axis} ${value}`)
    .join(", ");
}

// Return the children per depth of a tree as a sweep writes it, such as "2x1x1".
/** @param {string} tree */
export function childrenOf(tree) {
  return String(tree).split("x").map(Number);
}

// Describe a tree in words, from its children per depth.
/** @param {number[]} children */
function treeWords(children) {
  const deep = children.length;
  if (children.every((each) => each === 1)) return `A chain of ${deep}`;
  if (deep === 1) return `${children[0]} side by side`;
  const again = children.slice(1).some((each) => each > 1) ? ", which branch again" : "";
  return `${children.join(" × ")}: ${children[0]} branches${again}, ${deep} deep`;
}

// Return a picture of a tree as SVG markup, from its children per depth. It shows the root, and
// each drafted token connected with its parent.
/** @param {number[]} children */
export function treeMarkup(children) {
  const leaves = children.reduce((product, each) => product * each, 1);
  const [step, gap, edge] = [16, 11, 5];
  const height = 2 * edge + gap * (leaves - 1);
  const at = (/** @type {number} */ depth, /** @type {number} */ place) => {
    const all = children.slice(0, depth).reduce((product, each) => product * each, 1);
    return `${edge + step * depth} ${edge + gap * ((place + 0.5) * (leaves / all) - 0.5)}`;
  };
  /** @type {string[]} */
  const lines = [];
  const dots = [dot(at(0, 0), "is-root")];
  for (let depth = 1, all = 1; depth <= children.length; depth += 1) {
    all *= children[depth - 1];
    for (let place = 0; place < all; place += 1) {
      lines.push(`M${at(depth - 1, Math.floor(place / children[depth - 1]))}L${at(depth, place)}`);
      dots.push(dot(at(depth, place), ""));
    }
  }
  const width = 2 * edge + step * children.length;
  return `<svg class="sweep-tree" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" aria-hidden="true"><path d="${lines.join("")}"/>${dots.join("")}</svg>`;
}

/**
 * @param {string} at
 * @param {string} kind
 */
function dot(at, kind) {
  const [x, y] = at.split(" ");
  return `<circle class="${kind}" cx="${x}" cy="${y}" r="3.5"/>`;
}

// Return how many drafted tokens were examined and how many were accepted at each depth, summed
// over all points of the sweep.
/** @param {any[]} points */
export function byDepth(points) {
  /** @type {{ depth: number, reached: number, passed: number }[]} */
  const depths = [];
  for (const { acceptance_by_depth: each } of points)
    for (const { depth, reached, passed } of each) {
      depths[depth - 1] ??= { depth, reached: 0, passed: 0 };
      depths[depth - 1].reached += reached;
      depths[depth - 1].passed += passed;
    }
  return depths.filter(({ reached }) => reached > 0);
}

// Return the first, the last, the best and the worst point as values for texts. They are undefined
// if there are no points.
/**
 * @param {any[]} points
 * @param {Shown} shown
 * @param {(point: any) => string} words
 */
export function ends(points, shown, words) {
  const numbers = points.map(shown.of);
  const winner = numbers.indexOf(Math.max(...numbers));
  const [, second] = points.toSorted((one, other) => shown.of(other) - shown.of(one));
  const chosen = {
    first: points[0],
    last: points.at(-1),
    best: points[winner],
    second,
    worst: points[numbers.indexOf(Math.min(...numbers))],
  };
  const named = Object.entries(chosen).flatMap(([name, point]) => [
    [name, point && words(point)],
    [`${name}_speedup`, point?.speedup],
    [`${name}_low`, point?.speedup_spread?.[0]],
    [`${name}_high`, point?.speedup_spread?.[1]],
    [`${name}_acceptance`, point?.acceptance_rate ?? undefined],
    [`${name}_tokens`, point?.block_efficiency ?? undefined],
    [`${name}_used`, point?.draft_utilization ?? undefined],
    [`${name}_cost`, point?.cost_ratio ?? undefined],
    [`${name}_overhead`, point?.verify_overhead ?? undefined],
  ]);
  const { first, last } = chosen;
  const trend = first && last ? last.speedup / first.speedup : undefined;
  const lowest = points.length ? numbers.indexOf(Math.min(...numbers)) : undefined;
  return {
    ...Object.fromEntries(named),
    points: points.length || undefined,
    winner: points.length ? winner : undefined,
    lowest,
    trend,
  };
}
