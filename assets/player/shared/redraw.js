// One place of the text drawn anew, many times, from the distributions that verification computed there: a
// guess is drawn from q, kept with probability min(1, p/q), else replaced from what is left of p. Knows a
// round's record; knows no view.
//
// A recording keeps the most probable tokens and what all others sum up to: those are one bin here. What p
// and q have in common in it follows from the recorded overlap, so the first guess passes as often as in the
// run; a later sibling takes it for one token. Either way the bins come out as p, as single tokens would.

export const DRAWS = 1000;
const KEPT = 10; // a position's tokens beside the target's own, which is drawn later (TOP_TOKENS of the records)
const DEVIATIONS = 3.6; // above the floor, as in the laboratory (specviz/experiments/run/losslessness.py)

// What is needed to draw anew behind `parent`: bins with p and q, the last one that of all others (id null),
// how many guesses are tried, and by which rule. Null where the record does not keep the distributions, and
// at temperature 0, where nothing is drawn. `written` is a token that gets a bin of its own, however rare.
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
  const bins = binsOf(round, position, children, written);
  const ids = bins.map(({ id }) => id);
  const guesses = children.map((node) => ({ bin: ids.indexOf(tree.nodes.id[node]), passes: round.verdict(node).accept > 0 }));
  const drawn = tree.kind === "iid" || tree.kind === "without-replacement";
  const listed = bins.slice(0, -1).reduce((sum, { p, q }) => sum + Math.min(p, q), 0);
  const others = bins[bins.length - 1];
  const shared = drawn ? Math.max(0, Math.min(position.overlap - listed, others.p, others.q)) : 0;
  return { kind: tree.kind, ids, p: scaled(bins.map(({ p }) => p)), q: scaled(bins.map(({ q }) => q)), guesses, shared };
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
    if (at < KEPT || id === written) bins.set(id, { id, p: position.p[at], q: position.q[at] ?? 0 });
  });
  for (const node of children) {
    const id = round.record.tree.nodes.id[node];
    if (!bins.has(id)) bins.set(id, { id, p: round.verdict(node).p, q: firstQ(round, children, node) });
  }
  const known = [...bins.values()].filter(({ p, q }) => p > 0 || q > 0);
  known.sort((a, b) => b.p - a.p);
  const rest = (/** @type {"p" | "q"} */ key) => Math.max(0, 1 - known.reduce((sum, each) => sum + each[key], 0));
  return [...known, { id: null, p: rest("p"), q: rest("q") }];
}

// Without replacement a sibling's own q is scaled to what those before it had left.
/**
 * @param {Round} round
 * @param {number[]} children
 * @param {number} node
 */
function firstQ(round, children, node) {
  const { q } = round.record.tree.nodes;
  if (round.record.tree.kind !== "without-replacement") return q[node];
  let left = 1;
  for (const child of children) {
    if (child === node) break;
    left -= q[child] * left;
  }
  return q[node] * left;
}

// Sums to 1, or is all 0.
/** @param {number[]} values */
function scaled(values) {
  const total = values.reduce((sum, each) => sum + each, 0);
  return total > 0 ? values.map((each) => each / total) : values;
}

// Counts of many draws by bin: of guesses that were kept, and of tokens that the target drew itself.
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

  // One token, by the rule of the round.
  token() {
    const { kind } = this.plan;
    if (kind === "typical") return this.byThreshold();
    return kind === "deterministic" ? this.picked() : this.guessed();
  }

  // Guesses are drawn; each that fails leaves less of p.
  guessed() {
    const { plan, random } = this;
    let { p, q } = plan;
    for (let turn = 0; turn < plan.guesses.length; turn += 1) {
      const shared = turn ? sharedOf(p, q) : sharedOf(p, q, plan.shared);
      const bin = pick(q, random());
      if (random() * q[bin] < shared[bin]) return { bin, isKept: true };
      p = turn ? residual(p, shared) : this.first;
      if (plan.kind === "without-replacement") q = without(q, bin);
    }
    return { bin: pick(p, random()), isKept: false };
  }

  // The guesses are those of the run: each passes with what is left of p at its token.
  picked() {
    const { plan, random } = this;
    let { p } = plan;
    for (const { bin } of plan.guesses) {
      if (random() < p[bin]) return { bin, isKept: true };
      p = without(p, bin);
    }
    return { bin: pick(p, random()), isKept: false };
  }

  // The lossy rule asks for no draw, and takes nothing away from p.
  byThreshold() {
    const kept = this.plan.guesses.find(({ passes }) => passes);
    return kept ? { bin: kept.bin, isKept: true } : { bin: pick(this.plan.p, this.random()), isKept: false };
  }

  // How often a bin came out, of all draws.
  /** @param {number} bin */
  share(bin) {
    return (this.accepted[bin] + this.drawn[bin]) / Math.max(1, this.count);
  }

  // Total variation between what came out and p.
  get distance() {
    return this.plan.p.reduce((sum, p, bin) => sum + Math.abs(this.share(bin) - p), 0) / 2;
  }

  // How far as many draws from p itself would be from it on average: E|X/n - p| of a binomial X, summed.
  get floor() {
    const terms = this.plan.p.map((p) => Math.sqrt((p * (1 - p)) / (2 * Math.PI * Math.max(1, this.count))));
    return terms.reduce((sum, each) => sum + each, 0);
  }

  // Up to here as many draws from p itself come, but for one series in a hundred or fewer: the floor, what
  // its spread adds, and one whole draw, for few draws of rare tokens are far from normal.
  get ceiling() {
    const count = Math.max(1, this.count);
    return this.floor + DEVIATIONS * Math.sqrt(spread(this.plan.p) / count) + 1 / count;
  }
}

// The variance of sqrt(n) times the distance of n draws from p, of which the counts are taken for normal:
// for two of them with the correlation r, |x| and |y| vary together by 2/π (sqrt(1 - r²) + r asin r - 1).
/** @param {number[]} p */
function spread(p) {
  const deviations = p.map((each) => Math.sqrt(each * (1 - each)));
  let sum = 0;
  deviations.forEach((one, i) => deviations.forEach((other, j) => {
    if (one === 0 || other === 0) return;
    const r = i === j ? 1 : -Math.sqrt((p[i] * p[j]) / ((1 - p[i]) * (1 - p[j])));
    sum += one * other * (Math.sqrt(Math.max(0, 1 - r * r)) + r * Math.asin(Math.max(-1, r)) - 1);
  }));
  return sum / (2 * Math.PI);
}

// min(p, q) by bin; in the last one, where it is given, what its tokens have in common.
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

// What p has beyond what it shares with q, scaled to sum to 1; p itself where that is nothing.
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

// The bin in which a uniform number falls.
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

// Numbers in [0, 1) that follow from the seed (mulberry32).
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
