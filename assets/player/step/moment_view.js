// The views of one moment: tree, walk, distributions, residual, mask, cache. A chart is drawn again
// only if its content has changed.

import { Chart } from "../shared/charts.js";
import { EXTRA, ROOT } from "../shared/cursor.js";
import { element, setText } from "../shared/dom.js";
import { redrawPlan } from "../shared/redraw.js";
import { RedrawCard } from "../shared/redraw_card.js";
import { Remarks } from "../shared/remarks.js";
import { tokenLabel } from "../shared/token_label.js";
import { ringAround, treeFigure } from "../shared/tree_drawing.js";
import { LIKELIEST, partsWords, twoWaysNodes, waysAt } from "../shared/two_ways.js";
import { BlockPicture } from "./block_picture.js";
import { CacheStrip } from "./cache_strip.js";
import {
  barsAt,
  distributionNumbers,
  residualDrawn,
  ruleDistribution,
  withDraw,
} from "./distributions.js";
import {
  draftedWords,
  knownLines,
  noResidualWords,
  NO_MASK_YET,
  REDRAW_LATER,
  residualWords,
  stopWords,
  treeWords,
  walkNote,
} from "./moment_words.js";
import { judgedSoFar, judgedWhole, stageOf, standing, thoughtMoments } from "./moments.js";
import { RunningRates } from "./running_rates.js";
import { StepTable } from "./step_table.js";

export class MomentView {
  /**
   * @param {Refs} refs
   * @param {Theme} theme
   * @param {{ onSelect: (node: number) => void, onExample: (() => void) | null, exampleWords?: () => string, glossary: Glossary }} on
   */
  constructor(refs, theme, { onSelect, onExample, exampleWords, glossary }) {
    this.refs = refs;
    this.theme = theme;
    const select = (/** @type {number} */ node) =>
      typeof node === "number" && node !== ROOT && onSelect(node);
    this.tree = new Chart(refs.stepTree, theme, select);
    this.bars = new Chart(refs.stepBars, theme, select);
    this.residual = new Chart(refs.stepResidual, theme);
    this.mask = new Chart(refs.stepMask, theme, select);
    this.table = new StepTable(refs.stepTable, { onSelect });
    this.block = new BlockPicture(refs.stepBlock, { onSelect });
    this.cache = new CacheStrip(refs.cacheSlots, refs.cacheWords, { onSelect });
    this.remarks = new Remarks(refs.stepRemarks, glossary);
    this.redraw = new RedrawCard(refs.stepRedraw, onExample, exampleWords);
    this.rates = new RunningRates(refs.stepRates);
    /** @type {Record<string, any>} */
    this.drawn = {}; // for each chart by its name, a key of the content that it shows
    this.noMask = element("p", "lesson", NO_MASK_YET);
    refs.stepMask.before(this.noMask);
    this.clear();
  }

  clear() {
    for (const part of [
      this.tree,
      this.bars,
      this.residual,
      this.mask,
      this.table,
      this.block,
      this.remarks,
      this.redraw,
    ])
      part.clear();
    this.rates.show([], false);
    this.forget();
  }

  // Forget which content the charts show, so that all are drawn again after a change of theme or
  // size.
  forget() {
    this.drawn = {};
  }

  // Return whether a chart must be drawn again, and remember its new content.
  /**
   * @param {string} part
   * @param {any} key
   */
  isNew(part, key) {
    if (this.drawn[part] === key) return false;
    this.drawn[part] = key;
    return true;
  }

  // Draw the moment. While the cursor still moves, leave the charts below the tree for a later
  // frame, so that stepping and dragging stay smooth; return true in that case. `thought` is the
  // round with a changed draw, or null if the user changed none.
  /**
   * @param {Trace} trace
   * @param {StepCursor} cursor
   * @param {any} thought
   */
  draw(trace, cursor, thought) {
    const { current, moments, at, moment } = cursor;
    const round = thought ?? current;
    const node = cursor.node ?? standing(moments, at);
    const isJudged = node !== null && stageOf(round, moments, at, node) === "judged";
    const stage = isJudged ? "judged" : moment.phase === "draft" ? "drafted" : "verified";
    const seen = thought?.hasOtherWalk ? thoughtMoments(thought, node) : { moments, at };
    this.drawTree(round, cursor, node);
    this.table.draw(trace, round, seen.moments, seen.at);
    this.block.draw(trace, round, node, (each) => stageOf(round, seen.moments, seen.at, each));
    const judged = judgedSoFar(/** @type {Round} */ (current), moments, at);
    this.drawNotes(round, seen, node, judged.unreached);
    this.drawTitle(trace, round, node, stage);
    this.cache.draw(trace, /** @type {Round} */ (current), moment, cursor.node);
    const place = `${cursor.round} ${at} ${node} ${draw(round)}`;
    if (this.isNew("place", place)) return true;
    this.drawCharts(trace, round, {
      ...cursor.moment,
      node,
      stage,
      judged: judgedBy(seen),
      soFar: judged,
    });
    return false;
  }

  /**
   * @param {Round} round
   * @param {StepCursor} cursor
   * @param {number | null} node
   */
  drawTree(round, cursor, node) {
    const stage = (/** @type {number} */ each) => stageOf(round, cursor.moments, cursor.at, each);
    const role = (/** @type {number} */ each) => roleAt(round, stage(each), each);
    const words = round.hasOtherWalk
      ? `counterfactual: ${round.counts}`
      : treeWords(round, cursor.moment);
    setText(
      this.refs.stepTreeTitle,
      `${round.outcomes.length === 1 ? "One guess" : "Draft tree"} · ${words}`,
    );
    const roles = round.hasOtherWalk ? draw(round) : [...round.indices, EXTRA].map(stage).join();
    if (!this.isNew("tree", `${cursor.round} ${roles} ${node}`)) return;
    const drawing = round.treeDrawing;
    const card = (/** @type {number} */ each, /** @type {string[]} */ lines) =>
      knownLines(lines, stage(each));
    const { data, layout } = round.hasOtherWalk
      ? treeFigure(drawing)
      : treeFigure(drawing, role, card);
    const isThere = round.hasOtherWalk || (node !== null && role(node) !== "absent");
    const shapes = isThere ? ringAround(drawing, node, this.theme.selectColour) : [];
    this.tree.draw({ data, layout: { ...layout, shapes } });
  }

  /**
   * @param {Round} round
   * @param {{ moments: Moment[], at: number }} seen
   * @param {any} node
   * @param {number} unreached drafted tokens of the recorded round that can no longer be examined
   */
  drawNotes(round, seen, node, unreached) {
    const { refs } = this;
    const note = walkNote(round, judgedBy(seen), node);
    refs.stepResidualNote.hidden = !note;
    setText(refs.stepResidualNote, note);
    const count = round.hasOtherWalk ? judgedWhole(round).unreached : unreached;
    const were = round.hasOtherWalk ? "would never be" : count === 1 ? "was never" : "were never";
    refs.stepUnreached.hidden = !count;
    setText(
      refs.stepUnreached,
      `${count} drafted ${count === 1 ? "token" : "tokens"} ${were} examined: a rejection or another guess decided before`,
    );
  }

  /**
   * @param {Trace} trace
   * @param {Round} round
   * @param {number | null} node
   * @param {string} stage
   */
  drawTitle(trace, round, node, stage) {
    if (!this.isNew("title", `${round.record.i} ${node} ${stage} ${draw(round)}`)) return;
    const named = (/** @type {number} */ stop) => [
      element("b", "", tokenLabel(trace.text(round.tokenId(stop)))),
      ` · ${stopWords(round, stop, stage)}`,
    ];
    const isNamed = node !== null && (node !== EXTRA || stage === "judged");
    this.refs.stepBarsTitle.replaceChildren(
      ...(isNamed ? named(node) : ["Target p against draft q"]),
    );
  }

  // `known` has the node whose distributions are shown, its stage, the phase of the moment, and
  // `soFar`, which says what is known of the round (`judgedSoFar` in moments.js).
  /**
   * @param {Trace} trace
   * @param {Round} round
   * @param {any} known
   */
  drawCharts(trace, round, known) {
    const { node, stage, phase, soFar } = known;
    const index = round.record.i;
    const isThought = round.hasOtherWalk;
    if (this.isNew("rates", `${index} ${isThought} ${Object.values(soFar)}`))
      this.rates.show(
        [...trace.rounds.slice(0, index).map(judgedWhole), soFar],
        !trace.isChain,
        isThought,
      );
    if (this.isNew("remarks", index)) this.remarks.draw(trace, round.remarks);
    if (this.isNew("mask", `${index} ${phase === "draft"}`))
      this.drawMask(round, phase !== "draft");
    const figure = node === null ? null : round.barsFigure(node);
    if (this.isNew("bars", `${index} ${stage} ${node} ${draw(round)}`))
      this.drawBars(round, figure, stage);
    const parent = round.parentOf(node);
    this.redraw.show({
      trace,
      round: trace.rounds[index],
      node,
      words: stage === "drafted" ? REDRAW_LATER : "",
      isRejected: stage === "judged" && round.outcomes[node] === "rejected",
    });
    if (
      !this.isNew("residual", `${index} ${stage} ${parent} ${known.judged} ${round.outcomes[node]}`)
    )
      return;
    this.drawResidual(round, parent, known);
    this.drawTwoWays(trace, round, parent, known);
    const position =
      stage === "drafted"
        ? undefined
        : round.record.positions.find((each) => each.parent === parent);
    this.refs.stepNumbers.replaceChildren(
      ...distributionNumbers(position, ruleDistribution(trace.configOf(index))),
    );
  }

  // Keep the size of a chart that is not known yet, so that the page does not jump when it appears.
  /**
   * @param {Round} round
   * @param {boolean} isRun
   */
  drawMask(round, isRun) {
    this.noMask.hidden = isRun;
    veil(this.refs.stepMask, !isRun && round.maskFigure);
    if (isRun) this.mask.draw(round.maskFigure);
  }

  /**
   * @param {Round} round
   * @param {Figure | null} figure
   * @param {string} stage
   */
  drawBars(round, figure, stage) {
    const { refs } = this;
    const shown =
      figure &&
      barsAt(
        round.forced
          ? withDraw(figure, round.forced.u, round.verdict(round.forced.node).accept)
          : figure,
        stage,
      );
    veil(refs.stepBars, !shown && (round.templates.bars ?? {}));
    if (shown) this.bars.draw(shown);
    setText(
      refs.stepBarsNote,
      stage === "drafted" ? draftedWords(figure) : (figure?.layout.meta.heading ?? ""),
    );
    setText(
      refs.stepBarsRemark,
      stage === "judged" && !round.forced ? (figure?.layout.meta.remark ?? "") : "",
    );
  }

  /**
   * @param {Round} round
   * @param {any} parent
   * @param {any} known
   */
  drawResidual(round, parent, { node, stage, judged }) {
    // at temperature 0, p has all its mass on one token, which the sentence already names
    this.refs.residualCard.hidden = round.isGreedy;
    const isKnown = stage !== "drafted" && !round.isGreedy;
    const figure = isKnown ? round.residualFigure(parent) : null;
    veil(this.refs.stepResidual, !figure && (round.templates.residual ?? {}));
    const isDrawn = node === EXTRA && stage === "judged" && !round.hasOtherWalk;
    if (figure) this.residual.draw(isDrawn ? residualDrawn(figure) : figure);
    const words = figure
      ? residualWords(round, parent, judged, stage)
      : noResidualWords(round, parent, stage);
    this.refs.stepNoResidual.hidden = false;
    setText(this.refs.stepNoResidual, words);
  }

  // Show why the output follows p exactly, with the numbers of the token that this moment judges.
  /**
   * @param {Trace} trace
   * @param {Round} round
   * @param {any} parent
   * @param {any} known
   */
  drawTwoWays(trace, round, parent, { node, stage }) {
    const id = stage === "judged" ? round.tokenId(node) : null;
    const plan = id === null ? null : redrawPlan(round, parent, id);
    const origins =
      plan?.guesses.length && id !== null
        ? waysAt(plan, id, round.outcomes[node] === "rejected")
        : null;
    this.refs.stepTwoWays.hidden = !origins?.ways;
    if (origins?.ways)
      this.refs.stepTwoWays.replaceChildren(
        ...twoWaysNodes(
          tokenLabel(trace.text(origins.id)),
          origins.isOther ? LIKELIEST : "",
          origins.ways,
          true,
          false,
        ),
      );
    this.refs.stepTwoWays.title = origins?.ways ? partsWords(origins.ways).trim() : "";
  }
}

// Cover a chart while its numbers are not known. `figure` gives the size of the chart that will
// appear; it is false once the chart is visible. If the card holds nothing but this chart, show
// only a dashed outline of the card.
/**
 * @param {HTMLElement} box
 * @param {Figure | false} figure
 */
function veil(box, figure) {
  box.closest(".card.chart-card")?.classList.toggle("is-to-come", Boolean(figure));
  box.classList.toggle("is-veiled", Boolean(figure));
  if (figure && figure.layout) box.style.minHeight = `${figure.layout.height}px`;
}

// Return the changed draw as text, to be part of a chart's key.
/** @param {Round} round */
function draw(round) {
  return round.forced ? `${round.forced.u} ${round.hasOtherWalk}` : "";
}

/** @param {{ moments: Moment[], at: number }} seen */
function judgedBy({ moments, at }) {
  return moments
    .slice(0, at + 1)
    .flatMap(({ phase, node }) =>
      (phase === "judge" || phase === "extra") && node !== null ? [node] : [],
    );
}

// Return the outcome whose colour and mark a node gets. A token that is not judged yet looks like
// one that was never examined.
/**
 * @param {Round} round
 * @param {string} stage
 * @param {number} node
 */
function roleAt(round, stage, node) {
  if (stage !== "judged") return stage === "absent" ? stage : "unreached";
  if (node !== EXTRA) return round.outcomes[node];
  return round.extraKind ?? "recovered";
}
