// Repeats the draws of one position of the text, with the distributions that verification computed.
// Each repetition draws a token from q and accepts it with probability min(1, p/q). Otherwise it
// draws a token from the residual.
//
// A recording keeps the most probable tokens of a position and the summed probability of all
// others. Here, each kept token is a bin, and all others together are one more bin. The recorded
// overlap says how much mass p and q share in this last bin, so the first drafted token is accepted
// as often as in the run. No overlap is recorded for later siblings, so for them the last bin
// counts as a single token. In both cases the drawn bins follow p.

export const DRAWS = 1000;
const KEPT = 10; // recorded tokens per position, without the target's own token (TOP_TOKENS of the records)
const DEVIATIONS = 3.6; // standard deviations above the noise floor, the same as in specviz/experiments/run/losslessness.py

// Return a plan with everything that is needed to repeat the draws after the node `parent`: the
// bins with p and q, the drafted tokens, how they were drawn, and the rule. The last bin holds all other tokens together;
// its id is null. Return null at temperature 0, where nothing is drawn, if the record has no
// distributions, or if a drafted token was judged together with others (block verification). `written` is the id of a token that gets a separate bin even if it is rare.
/**
 * @param {Round} round
 * @param {number | undefined} parent
 * @param {number | null} [written]
 * @returns {RedrawPlan | null}
 */
export function redrawPlan(round, parent, written = null) {
  const { tree, positions } = round.record;
  const position = positions.find((each) => each.parent === parent);
  if (!position || round.isGreedy) return null;
  const children = round.indices.filter((each) => tree.nodes.parent[each] === parent);
  if (round.isJoint && children.length) return null;
  const bins = binsOf(round, position, children, written);
  const ids = bins.map(({ id }) => id);
  const guesses = children.map((node) => ({
    bin: ids.indexOf(tree.nodes.id[node]),
    passes: round.verdict(node).accept > 0,
  }));
  const listed = bins.slice(0, -1).reduce((sum, { p, q }) => sum + Math.min(p, q), 0);
  const others = bins[bins.length - 1];
  const shared =
    tree.drawing !== "chosen"
      ? Math.max(0, Math.min(position.overlap - listed, others.p, others.q))
      : 0;
  return {
    drawing: tree.drawing,
    rule: round.record.rule,
    ids,
    p: scaled(bins.map(({ p }) => p)),
    q: scaled(bins.map(({ q }) => q)),
    guesses,
    shared,
  };
}

/**
 * @param {Round} round
 * @param {PositionRecord} position
 * @param {number[]} children
 * @param {number | null} written
 */
function binsOf(round, position, children, written) {
  /** @type {Map<number | null, { id: number | null, p: number, q: number }>} */
  const bins = new Map();
  position.id.forEach((id, at) => {
    if (at < KEPT || id === written)
      bins.set(id, { id, p: position.p[at], q: position.q[at] ?? 0 });
  });
  for (const node of children) {
    const id = round.record.tree.nodes.id[node];
    if (!bins.has(id))
      bins.set(id, { id, p: round.verdict(node).p, q: firstQ(round, children, node) });
  }
  const known = [...bins.values()].filter(({ p, q }) => p > 0 || q > 0);
  known.sort((a, b) => b.p - a.p);
  const rest = (/** @type {"p" | "q"} */ key) =>
    Math.max(0, 1 - known.reduce((sum, each) => sum + each[key], 0));
  return [...known, { id: null, p: rest("p"), q: rest("q") }];
}

// Return the probability that the drafter gave to a node's token before any sibling was drawn.
// Without replacement, the recorded q of a sibling is relative to the mass that earlier siblings
// left.
/**
 * @param {Round} round
 * @param {number[]} children
 * @param {number} node
 */
function firstQ(round, children, node) {
  const { q } = round.record.tree.nodes;
  if (round.record.tree.drawing !== "without-replacement") return q[node];
  let left = 1;
  for (const child of children) {
    if (child === node) break;
    left -= q[child] * left;
  }
  return q[node] * left;
}

// Scale the values so that they sum to 1, unless all are 0.
/** @param {number[]} values */
function scaled(values) {
  const total = values.reduce((sum, each) => sum + each, 0);
  return total > 0 ? values.map((each) => each / total) : values;
}

// Counts many repeated draws by bin. It counts accepted drafted tokens and tokens drawn by the
// target separately.
export class Redraw {
  /**
   * @param {RedrawPlan} plan
   * @param {number} seed
   */
  constructor(plan, seed) {
    this.plan = plan;
    this.random = uniforms(seed);
    this.count = 0;
    this.accepted = plan.p.map(() => 0);
    this.drawn = plan.p.map(() => 0);
    this.first = residual(plan.p, sharedOf(plan.p, plan.q, plan.shared));
  }

  /** @param {number} draws */
  draw(draws) {
    for (let each = 0; each < draws; each += 1) {
      const { bin, isKept } = this.token();
      (isKept ? this.accepted : this.drawn)[bin] += 1;
    }
    this.count += draws;
  }

  // Draw one token by the rule of the round.
  token() {
    const { drawing, rule } = this.plan;
    if (rule === "typical") return this.byThreshold();
    return drawing === "chosen" ? this.picked() : this.guessed();
  }

  // Draw and judge one sibling after the other. Each rejection removes mass from p.
  guessed() {
    const { plan, random } = this;
    let { p, q } = plan;
    for (let turn = 0; turn < plan.guesses.length; turn += 1) {
      const shared = turn ? sharedOf(p, q) : sharedOf(p, q, plan.shared);
      const bin = pick(q, random());
      if (random() * q[bin] < shared[bin]) return { bin, isKept: true };
      p = turn ? residual(p, shared) : this.first;
      if (plan.drawing === "without-replacement") q = without(q, bin);
    }
    return { bin: pick(p, random()), isKept: false };
  }

  // Draw a token as the rule does if the drafter makes no random draws. Each repetition then judges
  // the same drafted tokens as the run. A drafted token is accepted with its probability in p, from
  // which earlier rejected siblings were removed.
  picked() {
    const { plan, random } = this;
    let { p } = plan;
    for (const { bin } of plan.guesses) {
      if (random() < p[bin]) return { bin, isKept: true };
      p = without(p, bin);
    }
    return { bin: pick(p, random()), isKept: false };
  }

  // Draw a token by the lossy rule. This rule accepts a drafted token without a random draw, and a
  // rejection removes nothing from p.
  byThreshold() {
    const kept = this.plan.guesses.find(({ passes }) => passes);
    return kept
      ? { bin: kept.bin, isKept: true }
      : { bin: pick(this.plan.p, this.random()), isKept: false };
  }

  // Return the share of all draws that ended in a bin.
  /** @param {number} bin */
  share(bin) {
    return (this.accepted[bin] + this.drawn[bin]) / Math.max(1, this.count);
  }

  // The total variation between the draws and p.
  get distance() {
    return this.plan.p.reduce((sum, p, bin) => sum + Math.abs(this.share(bin) - p), 0) / 2;
  }

  // The noise floor: the expected distance from p if the same number of tokens was drawn from p
  // itself. It is half of the sum of E|X/n - p| over the bins, where n is the number of draws and X
  // the binomial number of draws that end in a bin.
  get floor() {
    const terms = this.plan.p.map((p) =>
      Math.sqrt((p * (1 - p)) / (2 * Math.PI * Math.max(1, this.count))),
    );
    return terms.reduce((sum, each) => sum + each, 0);
  }

  // A limit for the distance. Of a hundred series of draws from p itself, at most one exceeds it.
  // It is the noise floor plus a multiple of the standard deviation. One draw is added, because the
  // counts of rare tokens are not normally distributed.
  get ceiling() {
    const count = Math.max(1, this.count);
    return this.floor + DEVIATIONS * Math.sqrt(spread(this.plan.p) / count) + 1 / count;
  }
}

// Return the variance of sqrt(n) times the distance of n draws from p, if the counts are normal.
// For two counts with correlation r, |x| and |y| have the covariance 2/π (sqrt(1 - r²) + r asin r -
// 1).
/** @param {number[]} p */
function spread(p) {
  const deviations = p.map((each) => Math.sqrt(each * (1 - each)));
  let sum = 0;
  deviations.forEach((one, i) =>
    deviations.forEach((other, j) => {
      if (one === 0 || other === 0) return;
      const r = i === j ? 1 : -Math.sqrt((p[i] * p[j]) / ((1 - p[i]) * (1 - p[j])));
      sum += one * other * (Math.sqrt(Math.max(0, 1 - r * r)) + r * Math.asin(Math.max(-1, r)) - 1);
    }),
  );
  return sum / (2 * Math.PI);
}

// Return min(p, q) of each bin. `ofOthers`, if given, is the shared mass of the last bin.
/**
 * @param {number[]} p
 * @param {number[]} q
 * @param {number} [ofOthers]
 */
export function sharedOf(p, q, ofOthers) {
  const shared = p.map((each, bin) => Math.min(each, q[bin]));
  if (ofOthers !== undefined) shared[shared.length - 1] = ofOthers;
  return shared;
}

// Return p without the mass that it shares with q, scaled to sum to 1. Return p itself if nothing
// is left.
/**
 * @param {number[]} p
 * @param {number[]} shared
 */
export function residual(p, shared) {
  const left = p.map((each, bin) => Math.max(0, each - shared[bin]));
  return left.some((each) => each > 0) ? scaled(left) : p;
}

/**
 * @param {number[]} values
 * @param {number} bin
 */
function without(values, bin) {
  const left = values.map((each, at) => (at === bin ? 0 : each));
  return left.some((each) => each > 0) ? scaled(left) : values;
}

// Return the bin into which a uniform number falls.
/**
 * @param {number[]} probs
 * @param {number} u
 */
function pick(probs, u) {
  let sum = 0;
  for (let bin = 0; bin < probs.length; bin += 1) {
    sum += probs[bin];
    if (u < sum) return bin;
  }
  return probs.findLastIndex((each) => each > 0);
}

// Return a generator of uniform numbers in [0, 1) that depends only on the seed (mulberry32).
/** @param {number} seed */
function uniforms(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
