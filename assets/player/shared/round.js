// One round as the views need it, from its record on the wire (specviz/records/rounds.py).
// Knows nothing of other rounds.

import { EXTRA } from "./cursor.js";

export class Round {
  // `figures` are differences from `templates`: the tree, its mask, the bars per node and extra token,
  // the residual per examined prefix, and the timeline. `remarks` are what the drafter said, each in parts: text, or a list of token ids.
  /**
   * @param {RoundRecord} record
   * @param {number} clock
   * @param {Partial<RoundFigures> & { timeline?: Figure }} figures
   * @param {Record<string, Figure>} templates
   */
  constructor(record, clock, figures, templates) {
    /** @type {RoundRecord} */
    this.record = record;
    this.clock = clock; // own seconds of the lane after this round
    this.figures = figures;
    this.templates = templates;
    /** @type {Remark[]} */
    this.remarks = [];
    /** @type {RoundSentences | null} of a round of the main lane */
    this.sentences = null;
    this.isGreedy = false; // decoded at temperature 0
    this.outcomes = record.verdicts.outcome;
    this.indices = this.outcomes.map((_, index) => index);
    this.accepted = this.indices.filter((index) => this.outcomes[index] === "accepted");
    /** @type {{ node: number, u: number } | null} */
    this.forced = null; // another draw that is thought of
    this.hasOtherWalk = false; // by that draw
    this.firstToken = this.endToken = 0; // of the text: from the round's first token to behind its last one
    this.stops = this.walk();
    this.levels = this.judgedLevels();
  }

  get extra() {
    return this.record.extra;
  }

  get extraKind() {
    return this.extra?.kind ?? null;
  }

  // Neither the end of the text nor the limit of tokens cut it short.
  get isWhole() {
    return Boolean(this.extra);
  }

  get isMixed() {
    return this.accepted.length > 0 && this.outcomes.includes("rejected");
  }

  // Examined nodes in the order of examination, then the extra token.
  walk() {
    const { depth } = this.record.tree.nodes;
    const examined = this.indices.filter((index) => this.outcomes[index] !== "unreached");
    examined.sort((a, b) => depth[a] - depth[b] || a - b);
    return this.extra ? [...examined, EXTRA] : examined;
  }

  get tellingStop() {
    const { stops } = this;
    const rejected = stops.filter((index) => this.outcomes[index] === "rejected");
    return rejected.at(-1) ?? this.accepted.at(-1) ?? stops.at(-1) ?? EXTRA;
  }

  // From depth 1 down: what became of each level, by the outcomes of all nodes.
  /** @param {string[]} [outcomes] */
  judgedLevels(outcomes = this.outcomes) {
    const { depth } = this.record.tree.nodes;
    /** @type {string[]} */
    const levels = [];
    /** @type {Record<string, number>} */
    const weight = { accepted: 2, rejected: 1, unreached: 0 };
    outcomes.forEach((outcome, index) => {
      const level = depth[index] - 1;
      if (!(weight[levels[level]] >= weight[outcome])) levels[level] = outcome;
    });
    return levels;
  }

  // The tokens that the round added: the accepted path, then the extra token.
  get emitted() {
    const { id } = this.record.tree.nodes;
    const path = this.accepted.map((node) => ({ id: id[node], origin: "accepted", node }));
    if (!this.extra) return path;
    return [...path, { id: this.extra.id, origin: this.extra.kind, node: EXTRA }];
  }

  // Whether some nodes are siblings: then only one path of them can be accepted.
  get isTree() {
    const { depth } = this.record.tree.nodes;
    return new Set(depth).size < depth.length;
  }

  get counts() {
    const [kept, drafted] = [this.accepted.length, this.outcomes.length];
    if (!drafted) return "nothing drafted";
    if (!this.isTree) return `${kept} of ${drafted} drafted ${drafted === 1 ? "token" : "tokens"} accepted`;
    return `${kept ? `a path of ${kept}` : "none"} accepted, ${drafted} nodes drafted`;
  }

  get seconds() {
    const { draft_prefill_seconds: prefill, draft_seconds: draft, verify_seconds: verify, host_seconds: host } = this.record;
    return prefill + draft + verify + host;
  }

  // An earlier sibling failed, so the rule compared what was left of p: the residual.
  /** @param {number} node */
  followsRejection(node) {
    const { parent } = this.record.tree.nodes;
    return this.indices.some((each) => each < node && parent[each] === parent[node] && this.outcomes[each] === "rejected");
  }

  // The node behind which a stop's distributions stand: -1 the root.
  /** @param {number} node */
  parentOf(node) {
    return node === EXTRA ? this.extra?.parent : this.record.tree.nodes.parent[node];
  }

  /** @param {number} node */
  tokenId(node) {
    return /** @type {number} */ (node === EXTRA ? this.extra?.id : this.record.tree.nodes.id[node]);
  }

  // What is said of a stop: how it was judged, or where the target's own token came from.
  /**
   * @param {number} node
   * @returns {Remark}
   */
  sentenceOf(node) {
    return (node === EXTRA ? this.sentences?.extra : this.sentences?.judge[node]) ?? [];
  }

  // The figures of a round of the main lane; those of other lanes have none.
  get known() {
    return /** @type {RoundFigures & { timeline: Figure }} */ (this.figures);
  }

  // Of specviz/figures/tree.py; shared/tree_drawing.js makes the figure of it.
  get treeDrawing() {
    return compose(this.templates.tree, this.known.tree);
  }

  get maskFigure() {
    return compose(this.templates.mask, this.known.mask);
  }

  // What was left of p behind `parent`, null where nothing was drafted there.
  /** @param {number} parent */
  residualFigure(parent) {
    const delta = this.known.residuals[parent];
    return delta ? compose(this.templates.residual, delta) : null;
  }

  /** @param {number} node */
  barsFigure(node) {
    const delta = this.known.bars[node === EXTRA ? this.outcomes.length : node];
    return delta ? compose(this.templates.bars, delta) : null;
  }

  get timelineFigure() {
    return compose(this.templates.timeline, this.known.timeline);
  }

  // Its rule compared p with a threshold, not with q and a draw.
  get isTypical() {
    return this.record.tree.kind === "typical";
  }

  // For its rule every guess was certain: q is 1.
  get isPointMass() {
    return this.record.tree.kind === "deterministic";
  }

  // Whether the drafter knows how probable its guesses are; one that copies does not.
  get hasConfidence() {
    return this.record.positions.some(({ q, raw_q }) => q.length + raw_q.length > 0);
  }

  // The drafter's probability of a node: the rule's q, or its own where the rule saw none or 1; null
  // where it has none.
  /** @param {number} node */
  shownQ(node) {
    const { q, raw_q } = this.verdict(node);
    if (!this.isGreedy && !this.isPointMass && !this.isTypical) return q;
    return this.hasConfidence ? raw_q : null;
  }

  // p, q, u … of a node as the rule used them, and unprocessed.
  /** @param {number} node */
  verdict(node) {
    const { verdicts } = this.record;
    const names = ["p", "residual", "q", "accept", "u", "raw_p", "raw_q"];
    const values = Object.fromEntries(names.map((name) => [name, /** @type {any} */ (verdicts)[name][node]]));
    return /** @type {VerdictRecord} */ ({ ...values, outcome: this.outcomes[node] });
  }
}

// A figure out of its template and what differs (`delta` in specviz/ui/race_messages.py).
/**
 * @param {Figure} template
 * @param {Figure} delta
 */
export function compose(template, delta) {
  return {
    data: template.data.map((trace, index) => ({ ...trace, ...delta.data[index] })),
    layout: { ...template.layout, ...delta.layout },
  };
}
