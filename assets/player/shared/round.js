// One round as the views need it, made from its record in a message (specviz/records/rounds.py). A
// round is independent of other rounds.

import { EXTRA } from "./cursor.js";

const JOINT_RULES = ["block", "traversal"];

export class Round {
  // `figures` are the charts of the round: the tree, its mask, the bars of each node and of the
  // extra token, the residual after each examined prefix, and the timeline. Each contains only its
  // differences from a template in `templates`. `remarks` are the notes of the drafter. A note is a
  // list of parts, each a text or a list of token ids.
  /**
   * @param {RoundRecord} record
   * @param {number} clock
   * @param {Partial<RoundFigures> & { timeline?: Figure }} figures
   * @param {Record<string, Figure>} templates
   */
  constructor(record, clock, figures, templates) {
    /** @type {RoundRecord} */
    this.record = record;
    this.clock = clock; // seconds on the lane's clock at the end of the round
    this.figures = figures;
    this.templates = templates;
    /** @type {Remark[]} */
    this.remarks = [];
    /** @type {RoundSentences | null} sentences about the moments; only rounds of the main lane have them */
    this.sentences = null;
    this.isGreedy = false; // true at temperature 0
    this.outcomes = record.verdicts.outcome;
    this.indices = this.outcomes.map((_, index) => index);
    this.accepted = this.indices.filter((index) => this.outcomes[index] === "accepted");
    /** @type {{ node: number, u: number } | null} */
    this.forced = null; // a draw that the user changed in the debugger
    this.hasOtherWalk = false; // true if the changed draw leads to other verdicts
    this.firstToken = this.endToken = 0; // indexes in the text: the first token of the round, and the one after its last token
    this.stops = this.walk();
    this.levels = this.judgedLevels();
  }

  get extra() {
    return this.record.extra;
  }

  get extraKind() {
    return this.extra?.kind ?? null;
  }

  // Return whether the round is complete. It is incomplete if the text ended or reached the token
  // limit in the middle of it.
  get isWhole() {
    return Boolean(this.extra);
  }

  get isMixed() {
    return this.accepted.length > 0 && this.outcomes.includes("rejected");
  }

  // Return the examined nodes in the order of examination, followed by the extra token.
  walk() {
    const { depth } = this.record.tree.nodes;
    const isExamined = (/** @type {number} */ index) => this.outcomes[index] !== "unreached";
    const down = () => [...this.indices].sort((a, b) => depth[a] - depth[b] || a - b);
    const examined = (this.isJoint ? this.upwards() : down()).filter(isExamined);
    return this.extra ? [...examined, EXTRA] : examined;
  }

  // Return the nodes below a node (-1: the root), each after its children. A rule that judges whole
  // paths reads them in this order, so it reads a chain from its end.
  /** @returns {number[]} */
  upwards(node = -1) {
    const { parent } = this.record.tree.nodes;
    return this.indices
      .filter((index) => parent[index] === node)
      .flatMap((child) => [...this.upwards(child), child]);
  }

  get tellingStop() {
    const { stops } = this;
    const rejected = stops.filter((index) => this.outcomes[index] === "rejected");
    return rejected.at(-1) ?? this.accepted.at(-1) ?? stops.at(-1) ?? EXTRA;
  }

  // Return the outcome of each level of the tree, from depth 1 on: "accepted" if any node was
  // accepted, otherwise "rejected" if any was rejected. A rule that judges whole paths can reject
  // nodes of other branches that are deeper than an accepted leaf; these do not count.
  /** @param {string[]} [outcomes] */
  judgedLevels(outcomes = this.outcomes) {
    const { depth } = this.record.tree.nodes;
    /** @type {string[]} */
    const levels = [];
    /** @type {Record<string, number>} */
    const weight = { accepted: 2, rejected: 1, unreached: 0 };
    const end = this.indices.findLast((index) => outcomes[index] === "accepted");
    const isLeaf =
      this.isJoint && end !== undefined && !this.record.tree.nodes.parent.includes(end);
    outcomes.forEach((outcome, index) => {
      const level = depth[index] - 1;
      if (isLeaf && level >= depth[end]) levels[level] = "unreached";
      else if (!(weight[levels[level]] >= weight[outcome])) levels[level] = outcome;
    });
    return levels;
  }

  // The tokens that the round added to the text: the accepted path, followed by the extra token.
  get emitted() {
    const { id } = this.record.tree.nodes;
    const path = this.accepted.map((node) => ({ id: id[node], origin: "accepted", node }));
    if (!this.extra) return path;
    return [...path, { id: this.extra.id, origin: this.extra.kind, node: EXTRA }];
  }

  // Return whether some nodes are alternatives at the same position, so that at most one of them
  // can be accepted.
  get isTree() {
    const { depth } = this.record.tree.nodes;
    return new Set(depth).size < depth.length;
  }

  get counts() {
    const [kept, drafted] = [this.accepted.length, this.outcomes.length];
    if (!drafted) return "nothing drafted";
    if (!this.isTree)
      return `${kept} of ${drafted} drafted ${drafted === 1 ? "token" : "tokens"} accepted`;
    return `${kept ? `a path of ${kept}` : "none"} accepted, ${drafted} nodes drafted`;
  }

  get seconds() {
    const {
      draft_prefill_seconds: prefill,
      draft_seconds: draft,
      verify_seconds: verify,
      host_seconds: host,
    } = this.record;
    return prefill + draft + verify + host;
  }

  // Return whether an earlier sibling of the node was rejected, so that the rule compared u with
  // the residual instead of p.
  /** @param {number} node */
  followsRejection(node) {
    const { parent } = this.record.tree.nodes;
    return this.indices.some(
      (each) => each < node && parent[each] === parent[node] && this.outcomes[each] === "rejected",
    );
  }

  // Return the node after which a stop's token comes. The stop's distributions are those of the
  // next token after this node. The root is -1.
  /** @param {number} node */
  parentOf(node) {
    return node === EXTRA ? this.extra?.parent : this.record.tree.nodes.parent[node];
  }

  /** @param {number} node */
  tokenId(node) {
    return /** @type {number} */ (
      node === EXTRA ? this.extra?.id : this.record.tree.nodes.id[node]
    );
  }

  // Return the sentence about a stop: its verdict, or the origin of the target's own token.
  /**
   * @param {number} node
   * @returns {Remark}
   */
  sentenceOf(node) {
    return (node === EXTRA ? this.sentences?.extra : this.sentences?.judge[node]) ?? [];
  }

  // The charts of a round, for callers that know that it has charts. Only rounds of the main lane
  // have them.
  get known() {
    return /** @type {RoundFigures & { timeline: Figure }} */ (this.figures);
  }

  // The drawing made by specviz/figures/tree.py. shared/tree_drawing.js turns it into a Plotly
  // chart.
  get treeDrawing() {
    return compose(this.templates.tree, this.known.tree);
  }

  get maskFigure() {
    return compose(this.templates.mask, this.known.mask);
  }

  // Return the chart of the residual after the node `parent`, or null if nothing was drafted there.
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

  // Return whether the rule compared p with a threshold instead of comparing p/q with a random
  // draw.
  get isTypical() {
    return this.record.rule === "typical";
  }

  // Return whether the rule judged whole paths, from their ends: block verification a chain, and
  // traversal verification the paths of a tree, one after another.
  get isJoint() {
    return JOINT_RULES.includes(this.record.rule);
  }

  // Return whether the rule treated every drafted token as certain, with q = 1.
  get isPointMass() {
    return this.record.tree.drawing === "chosen" && !this.isTypical;
  }

  // Return whether the drafter knows the probabilities of its tokens. A drafter that copies tokens
  // does not.
  get hasConfidence() {
    return this.record.positions.some(({ q, raw_q }) => q.length + raw_q.length > 0);
  }

  // Return the q that the page shows for a node. It is the q that the rule used. If the rule used
  // no q, or treated it as 1, it is the drafter's own q, or null if the drafter has none.
  /** @param {number} node */
  shownQ(node) {
    const { q, raw_q } = this.verdict(node);
    if (!this.isGreedy && !this.isPointMass && !this.isTypical) return q;
    return this.hasConfidence ? raw_q : null;
  }

  // Return p, q, u and the other numbers of a node: those that the rule used, and the raw ones
  // before the sampling settings.
  /** @param {number} node */
  verdict(node) {
    const { verdicts } = this.record;
    const names = ["p", "residual", "q", "accept", "u", "raw_p", "raw_q"];
    const values = Object.fromEntries(
      names.map((name) => [name, /** @type {any} */ (verdicts)[name][node]]),
    );
    return /** @type {VerdictRecord} */ ({ ...values, outcome: this.outcomes[node] });
  }
}

// Build a chart from its template and the differences that the server sent (`delta` in
// specviz/ui/race_messages.py).
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
