// The details of one round: its draft tree, the drafter's notes, the distributions p and q at the
// selected token, and the timeline.

import { Chart } from "../shared/charts.js";
import { EXTRA, ROOT } from "../shared/cursor.js";
import { element, onNode, setText } from "../shared/dom.js";
import { RedrawCard } from "../shared/redraw_card.js";
import { remarkNodes, Remarks } from "../shared/remarks.js";
import { tokenLabel } from "../shared/token_label.js";
import { ringAround, treeFigure } from "../shared/tree_drawing.js";
import {
  extraNumbers,
  GREEDY_NOTE,
  judgedNumbers,
  outcomeOf,
  outcomeTitle,
  pointMassNote,
  verdictHead,
  verdictRow,
} from "../shared/verdict_row.js";

export class Inspector {
  /**
   * @param {Refs} refs
   * @param {Theme} theme
   * @param {{ glossary: Glossary, onSelect: (node: number) => void, onExample: () => void, exampleWords: () => string }} on
   */
  constructor(refs, theme, { glossary, onSelect, onExample, exampleWords }) {
    this.refs = refs;
    this.theme = theme;
    const select = (/** @type {number} */ node) =>
      typeof node === "number" && node !== ROOT && onSelect(node);
    this.tree = new Chart(refs.treeChart, theme, select);
    this.bars = new Chart(refs.barsChart, theme, select);
    this.timeline = new Chart(refs.timelineChart, theme);
    this.table = new VerdictTable(refs.verdicts, { onSelect });
    this.remarks = new Remarks(refs.remarks, glossary);
    this.redraw = new RedrawCard(refs.raceRedraw, onExample, exampleWords);
    /** @type {any} the timeline chart that is shown, and its theme */
    this.timed = null;
    /** @type {{ round: Round, node: number } | null} the token that the sentences describe */
    this.described = null;
    this.clear();
  }

  clear() {
    this.shown = this.drawn = this.timed = this.described = null;
    this.isBarsDue = false;
    for (const part of [this.tree, this.bars, this.timeline, this.table, this.remarks, this.redraw])
      part.clear();
    this.refs.timelineTitle.hidden = true;
    this.refs.residualNote.hidden = true;
    this.refs.roundSentence.replaceChildren();
    this.refs.tokenSentence.replaceChildren();
    setText(this.refs.barsNote, "");
    setText(this.refs.barsRemark, "");
    this.refs.treeTitle.textContent = "Draft tree, and how the target judged it";
    this.refs.barsTitle.textContent = "Target p against draft q";
  }

  // Draw the headings, the sentences and the table in every frame, because this is cheap. So they
  // always name the same round and token, even if the charts follow later.
  /**
   * @param {Trace} trace
   * @param {number} index
   * @param {number} node
   */
  drawWords(trace, index, node) {
    const round = trace.rounds[index];
    const { described } = this;
    if (!round || (described?.round === round && described.node === node)) return;
    this.described = { round, node };
    this.drawTable(trace, round, node);
    this.refs.barsTitle.replaceChildren(
      element("b", "", tokenLabel(trace.text(round.tokenId(node)))),
      ` · ${outcomeTitle(round, node)}`,
    );
    this.refs.tokenSentence.replaceChildren(...remarkNodes(trace, round.sentenceOf(node)));
    if (described?.round === round) return;
    setText(this.refs.treeTitle, `Round ${index + 1} · ${round.counts}`);
    this.refs.roundSentence.replaceChildren(...remarkNodes(trace, round.sentences?.commit ?? []));
  }

  // Draw the charts of a round. The tree comes first and the bars in the next frame, so that
  // dragging along the timeline stays smooth. While the race runs, both are drawn in one frame, but
  // only if they are visible. Return true if something is left for the next frame.
  /**
   * @param {Trace} trace
   * @param {number} index
   * @param {number} node
   */
  draw(trace, index, node, isRunning = false) {
    const round = trace.rounds[index];
    if (!round) return false;
    const look = `${this.theme.name} ${this.theme.isLarge}`;
    const isNewRound = this.drawn !== `${index} ${look}`;
    const isNewStop = this.shown !== `${index} ${node} ${look}`;
    this.drawn = `${index} ${look}`;
    this.shown = `${index} ${node} ${look}`;
    if (isNewRound) this.remarks.draw(trace, round.remarks);
    const isTreeDue = isNewRound || this.tree.isStale;
    const drawing = round.treeDrawing;
    const ring = ringAround(drawing, node, this.theme.selectColour);
    if (isTreeDue) this.drawTree(treeFigure(drawing), ring, isRunning);
    else if (isNewStop) this.tree.drawShapes(ring);
    if (isNewStop) this.reveal(ring);
    if (!isRunning) this.redraw.show({ trace, round, node, isWhole: true });
    if (isNewStop ? isRunning : this.isBarsDue || this.bars.isStale)
      this.drawBars(round, node, isRunning);
    if (!isNewStop || isRunning) this.drawTimeline(round, look, isRunning);
    this.isBarsDue = isNewStop && !isRunning;
    return this.isBarsDue;
  }

  // Draw the timeline of a round. It also shows the following round, so it is drawn again when that
  // round arrives.
  /**
   * @param {Round} round
   * @param {string} look
   * @param {boolean} isLazy
   */
  drawTimeline(round, look, isLazy) {
    const { timeline } = round.figures;
    if (this.timed?.timeline === timeline && this.timed.look === look && !this.timeline.isStale)
      return;
    this.timed = { timeline, look };
    this.refs.timelineTitle.hidden = false;
    this.timeline.draw(round.timelineFigure, isLazy);
  }

  /**
   * @param {Figure} figure
   * @param {object[]} shapes
   * @param {boolean} isLazy
   */
  drawTree({ data, layout }, shapes, isLazy) {
    this.tree.draw({ data, layout: { ...layout, shapes } }, isLazy);
  }

  // On a small screen, scroll the tree so that the selected node is visible.
  /** @param {any[]} rings */
  reveal(rings) {
    const ring = rings.at(0);
    if (ring && this.tree.isScrolling)
      this.tree.box.parentElement.scrollLeft =
        this.tree.pixelAt(ring.xanchor) - this.tree.width * 0.6;
  }

  /**
   * @param {Trace} trace
   * @param {Round} round
   * @param {number} node
   */
  drawTable(trace, round, node) {
    this.table.draw(trace, round, node);
    const notes =
      round.isGreedy && round.outcomes.length
        ? [GREEDY_NOTE]
        : [pointMassNote(round)].filter(Boolean);
    if (this.table.hasResidual)
      notes.push("* after a rejected sibling, p is what was left of it: the residual.");
    if (round.extraKind === "recovered" && !round.isTypical && !round.isGreedy)
      notes.push("r: the probability with which the replacement was drawn from the residual.");
    setText(this.refs.residualNote, notes.join(" "));
    this.refs.residualNote.hidden = notes.length === 0;
  }

  /**
   * @param {Round} round
   * @param {number} node
   */
  drawBars(round, node, isLazy = false) {
    const figure = round.barsFigure(node);
    if (figure) this.bars.draw(figure, isLazy);
    else this.bars.clear();
    setText(this.refs.barsNote, figure?.layout.meta.heading ?? "");
    setText(this.refs.barsRemark, figure?.layout.meta.remark ?? "");
  }
}

// The table of one round's walk: the examined tokens in order, and the numbers that decided each.
class VerdictTable {
  /**
   * @param {HTMLTableElement} table
   * @param {{ onSelect: (node: number) => void }} given
   */
  constructor(table, { onSelect }) {
    this.table = table;
    this.rows = new Map();
    onNode(table, onSelect);
  }

  clear() {
    this.table.replaceChildren();
    this.rows.clear();
  }

  // Return whether a row compares u with a residual. The table marks such a row with a star and
  // explains the star below.
  get hasResidual() {
    return [...this.table.querySelectorAll(".number")].some((cell) =>
      cell.textContent.endsWith("*"),
    );
  }

  /**
   * @param {Trace} trace
   * @param {Round} round
   * @param {number} node
   */
  draw(trace, round, node) {
    this.rows = new Map(round.stops.map((stop) => [stop, row(trace, round, stop)]));
    this.rows.get(node)?.classList.add("is-selected");
    const [top, body] = [element("thead"), element("tbody")];
    top.append(verdictHead(round));
    body.append(...this.rows.values());
    this.table.replaceChildren(top, body);
  }
}

/**
 * @param {Trace} trace
 * @param {Round} round
 * @param {number} stop
 */
function row(trace, round, stop) {
  const values = stop === EXTRA ? extraNumbers(round) : judgedNumbers(round, stop);
  return verdictRow(
    stop,
    tokenLabel(trace.text(round.tokenId(stop))),
    values,
    outcomeOf(round, stop) ?? "",
  );
}
