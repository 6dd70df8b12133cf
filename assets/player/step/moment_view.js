// The views of one moment: tree, walk, laws, residual, mask, cache. Draws each chart only when what
// it shows has changed. Knows the step cursor's round and moment; decides nothing.

import { barsAlone, heading, remark } from "../bars_heading.js";
import { Chart } from "../charts.js";
import { EXTRA, ROOT } from "../cursor.js";
import { element, setText } from "../dom.js";
import { verdictSentence } from "../inspector.js";
import { Remarks } from "../remarks.js";
import { ringAround } from "../ring.js";
import { tokenLabel } from "../tooltip.js";
import { CacheStrip } from "./cache_strip.js";
import { thoughtMoments } from "./counterfactual.js";
import { barsAt } from "./law_moment.js";
import { lawNumbers } from "./law_numbers.js";
import { stageOf } from "./moments.js";
import { residualNote, StepTable } from "./step_table.js";
import { treeAt } from "./tree_moment.js";

export class MomentView {
  constructor(refs, theme, { onSelect, glossary }) {
    Object.assign(this, { refs, theme });
    const select = (node) => typeof node === "number" && node !== ROOT && onSelect(node);
    this.tree = new Chart(refs.stepTree, theme, select);
    this.bars = new Chart(refs.stepBars, theme, select);
    this.residual = new Chart(refs.stepResidual, theme);
    this.mask = new Chart(refs.stepMask, theme, select);
    this.table = new StepTable(refs.stepTable, { onSelect });
    this.cache = new CacheStrip(refs.cacheSlots, refs.cacheWords, { onSelect });
    this.remarks = new Remarks(refs.stepRemarks, glossary);
    this.clear();
  }

  clear() {
    for (const part of [this.tree, this.bars, this.residual, this.mask, this.table, this.remarks]) part.clear();
    this.forget();
  }

  // Everything is drawn anew: another theme, another size.
  forget() {
    this.drawn = {};
  }

  // True where a part's picture differs from the one that it last drew.
  isNew(part, key) {
    if (this.drawn[part] === key) return false;
    this.drawn[part] = key;
    return true;
  }

  // True while the charts below the tree are left for the next frame: they come when the cursor rests,
  // so that stepping and dragging stay smooth. `thought` is the round as it would have been with
  // another draw, or null.
  draw(trace, cursor, thought) {
    const { current: round, moments, at, moment } = cursor;
    const node = cursor.node ?? standing(moments, at);
    const isJudged = node !== null && stageOf(round, moments, at, node) === "judged";
    const stage = isJudged ? "judged" : moment.phase === "draft" ? "drafted" : "verified";
    this.drawTree(thought ?? round, cursor, node);
    if (thought) this.drawThought(trace, thought, node);
    else this.table.draw(trace, round, moments, at);
    this.drawNotes(round, moment);
    this.drawTitle(trace, round, node, stage);
    this.cache.draw(trace, round, moment, cursor.node);
    if (this.isNew("place", `${cursor.round} ${at} ${node}`)) return true;
    this.drawCharts(trace, round, `${cursor.round} ${stage}`, node, stage);
    return false;
  }

  // The whole walk at once: a thought has no moments of its own.
  drawThought(trace, thought, node) {
    const { moments, at } = thoughtMoments(thought, node);
    this.table.draw(trace, thought, moments, at);
  }

  drawTree(round, cursor, node) {
    const role = (each) => roleAt(round, cursor, each);
    const roles = [...round.indices, EXTRA].map(role).join();
    const words = round.isThought ? `counterfactual: ${round.counts}` : treeWords(cursor.moment, round);
    setText(this.refs.stepTreeTitle, `Draft tree · ${words}`);
    if (!this.isNew("tree", `${cursor.round} ${roles} ${cursor.node ?? node}`)) return;
    const { data, layout } = treeAt(round.treeFigure, role);
    this.tree.draw({ data, layout: { ...layout, shapes: ringAround({ data }, cursor.node ?? node, this.theme.selectColour) } });
  }

  drawNotes(round, { phase, node }) {
    const { refs } = this;
    const note = phase === "draft" || phase === "verify" ? "" : residualNote(round, node);
    refs.stepResidualNote.hidden = !note;
    setText(refs.stepResidualNote, note);
    const isOver = phase === "resample" || phase === "commit";
    const unreached = round.outcomes.filter((outcome) => outcome === "unreached").length;
    refs.stepUnreached.hidden = !isOver || !unreached;
    setText(refs.stepUnreached, `${unreached} drafted ${unreached === 1 ? "token was" : "tokens were"} never examined: the walk did not come that way`);
  }

  drawTitle(trace, round, node, stage) {
    if (!this.isNew("title", `${round.record.i} ${node} ${stage}`)) return;
    const sentence = stage === "judged" ? verdictSentence(round, node, trace.isGreedy) : "drafted, not judged yet";
    const named = () => [element("b", "", tokenLabel(trace.text(round.tokenId(node)))), ` · ${sentence}`];
    this.refs.stepBarsTitle.replaceChildren(...(node === null ? ["Target p against draft q"] : named()));
  }

  // `when`: the round, and what is known by now.
  drawCharts(trace, round, when, node, stage) {
    if (this.isNew("mask", round.record.i)) {
      this.mask.draw(round.maskFigure);
      this.remarks.draw(trace, round.remarks);
    }
    if (this.isNew("bars", `${when} ${node}`)) this.drawBars(node === null ? null : round.barsFigure(node), stage);
    const parent = round.parentOf(node);
    if (!this.isNew("residual", `${when} ${parent}`)) return;
    this.drawResidual(round, parent, stage);
    const position = round.record.positions.find((each) => each.parent === parent);
    this.refs.stepNumbers.replaceChildren(...(stage === "drafted" ? [] : lawNumbers(position)));
  }

  drawBars(figure, stage) {
    if (figure) this.bars.draw(barsAlone(barsAt(figure, stage)));
    else this.bars.clear();
    setText(this.refs.stepBarsNote, stage === "drafted" ? "q, as the draft was drawn; p comes with the target’s forward" : heading(figure));
    setText(this.refs.stepBarsRemark, stage === "judged" ? remark(figure) : "");
  }

  drawResidual(round, parent, stage) {
    const figure = stage === "judged" ? round.residualFigure(parent) : null;
    const { stepNoResidual } = this.refs;
    stepNoResidual.hidden = Boolean(figure);
    if (figure) return this.residual.draw(figure);
    this.residual.clear();
    setText(stepNoResidual, stage === "judged" ? residualWords(round, parent) : "It is known once the drafts at this place are judged.");
  }
}

// The node whose laws are shown: the cursor's, else the one that was judged last, else the first.
function standing(moments, at) {
  const isOf = ({ phase }) => phase === "judge" || phase === "resample";
  if (isOf(moments[at])) return moments[at].node;
  const before = moments.slice(0, at).findLast(isOf);
  return (before ?? moments.find(isOf))?.node ?? null;
}

// In whose colour and mark a node stands: what was not judged yet looks like what was never examined.
function roleAt(round, { moments, at }, node) {
  if (round.isThought) return node === EXTRA ? "absent" : round.outcomes[node];
  const stage = stageOf(round, moments, at, node);
  if (stage !== "judged") return stage === "absent" ? stage : "unreached";
  if (node !== EXTRA) return round.outcomes[node];
  return round.extraKind === "bonus" ? "bonus" : "recovered";
}

// Why there is no residual to show.
function residualWords(round, parent) {
  if (!round.record.nodes.parent.includes(parent)) return "Nothing was drafted here, so nothing was taken away from p.";
  const isExamined = round.record.positions.some((each) => each.parent === parent);
  return isExamined ? "Whoever recorded this run could not see it." : "Never examined: the walk did not come here.";
}

function treeWords({ phase, level, node }, round) {
  const drafted = round.outcomes.length;
  return {
    draft: level ? `level ${level} is drafted` : "nothing was drafted",
    verify: `one target forward judges ${drafted ? `all ${drafted}` : "the root alone"}`,
    judge: `examining depth ${round.record.nodes.depth[node]}`,
    resample: round.extraKind === "bonus" ? "a leaf was reached: the target adds a bonus token" : "all failed here: the target draws the recovered token",
    commit: round.counts,
  }[phase];
}
