// The two charts of one round: its draft tree, and p against q at the selected token.
// Knows a round and a node; draws each chart only when what it shows has changed.

import { Chart } from "./charts.js";
import { EXTRA, ROOT } from "./cursor.js";
import { element } from "./dom.js";
import { tokenLabel } from "./tooltip.js";

const RING = { type: "scatter", mode: "markers", hoverinfo: "skip", cliponaxis: false };

export class Inspector {
  constructor(refs, theme, { onSelect }) {
    this.refs = refs;
    this.theme = theme;
    const select = (node) => typeof node === "number" && node !== ROOT && onSelect(node);
    this.tree = new Chart(refs.treeChart, theme, select);
    this.bars = new Chart(refs.barsChart, theme, select);
    this.clear();
  }

  clear() {
    this.shown = null;
    this.tree.clear();
    this.bars.clear();
    this.refs.treeTitle.textContent = "Draft tree, and how the target judged it";
    this.refs.barsTitle.textContent = "Target p against draft q";
  }

  draw(trace, index, node) {
    const round = trace.rounds[index];
    if (!round) return;
    const key = `${index} ${node} ${this.theme.name} ${this.theme.isLarge}`;
    if (this.shown === key) return;
    this.shown = key;
    this.drawTree(round, index, node);
    this.drawBars(trace, round, node);
  }

  drawTree(round, index, node) {
    const figure = round.treeFigure;
    this.tree.draw({ ...figure, data: [...figure.data, this.ring(figure, node)] });
    const kept = round.accepted.length;
    const drafted = round.outcomes.length;
    const counts = drafted ? `${kept} of ${drafted} drafted tokens accepted` : "nothing drafted";
    this.refs.treeTitle.textContent = `Round ${index + 1} · ${counts}`;
  }

  // A ring around the selected node, found by the customdata of its marker.
  ring(figure, node) {
    for (const { customdata, x, y, mode } of figure.data) {
      const at = mode === "markers" ? (customdata ?? []).indexOf(node) : -1;
      if (at >= 0) return this.ringAt([x[at]], [y[at]]);
    }
    return this.ringAt([], []);
  }

  ringAt(x, y) {
    const line = { width: 2, color: this.theme.selectColour };
    return { ...RING, x, y, marker: { symbol: "circle-open", size: 24, line, color: line.color } };
  }

  drawBars(trace, round, node) {
    const figure = round.barsFigure(node);
    if (figure) this.bars.draw(figure);
    else this.bars.clear();
    const title = this.refs.barsTitle;
    title.replaceChildren(
      element("b", "", tokenLabel(trace.text(round.tokenId(node)))),
      ` · ${verdictSentence(round, node)}`,
    );
  }
}

// What happened to this token, in one line.
export function verdictSentence(round, node) {
  if (node === EXTRA) {
    return {
      recovered: "recovered: drawn from what p has beyond q",
      bonus: "bonus: every draft passed, the target adds one",
      first: "first: drawn from the target after the prompt",
    }[round.extraKind];
  }
  const { accept, u, outcome } = round.verdict(node);
  if (outcome === "unreached") return "never examined: the walk ended before it";
  if (accept >= 1) return "accepted: p ≥ q, so any u accepts";
  if (accept <= 0) return "rejected: p is 0 here, no u accepts";
  const relation = outcome === "accepted" ? "≤" : ">";
  return `${outcome}: u ${u.toFixed(2)} ${relation} min(1, p/q) = ${accept.toFixed(2)}`;
}
