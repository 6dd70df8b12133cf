// A widget about a recorded round whose draft was a tree. The learner steps through its verdicts,
// fills in the attention mask by hand, and decides which cache slots to keep.

import { Chart } from "../../shared/charts.js";
import { EXTRA, ROOT } from "../../shared/cursor.js";
import { element, setText } from "../../shared/dom.js";
import { probability } from "../../shared/number_words.js";
import { tokenLabel } from "../../shared/token_label.js";
import { ringAround, treeFigure } from "../../shared/tree_drawing.js";
import { extraNumbers, outcomeOf, verdictRow } from "../../shared/verdict_row.js";
import { Widget } from "../widget.js";
import { drawnSibling, mayLook, triedBefore } from "./tree_paths.js";

const CONTEXT = 16; // tokens of the text before the tree
const HEAD = ["examined", "p", "kept with", "u", "verdict"];

export class TokenTree extends Widget {
  static id = "token-tree";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on);
    /** @type {Record<string, string>} */
    this.scene = {};
    /** @type {{ trace: Trace, round: Round } | null} */
    this.place = null;
    this.walked = 0; // number of the round's stops whose verdicts are shown so far
    this.looked = new Set(); // the rows (the root or a node) that the learner has chosen correctly so far
    this.context = element("p", "guess-context");
    const picture = element("div", "chart-card");
    const scroller = element("div", "scroller");
    const chart = element("div", "chart");
    chart.setAttribute("role", "img");
    chart.setAttribute("aria-label", "The draft tree");
    scroller.append(chart);
    picture.append(element("h3", "", "The draft tree"), scroller);
    this.next = element("button", "primary", "Next verdict");
    this.next.type = "button";
    this.next.dataset.next = "";
    this.next.addEventListener("click", () => this.judge());
    this.table = element("table", "verdicts");
    this.table.setAttribute("aria-label", "Verdicts, in the order in which they fell");
    this.mask = element("table", "mask-grid");
    this.mask.setAttribute("aria-label", "Attention mask: who may look at whom");
    this.slots = element("div", "slot-row");
    this.slots.setAttribute("role", "group");
    this.slots.setAttribute("aria-label", "Slots of the target’s cache");
    this.words = element("p", "forward-words");
    this.words.setAttribute("role", "status");
    box.classList.add("token-tree");
    box.replaceChildren(
      this.context,
      picture,
      this.next,
      this.table,
      this.mask,
      this.slots,
      this.words,
    );
    this.chart = new Chart(chart, course.theme);
  }

  /** @param {Record<string, string>} scene */
  async set(scene) {
    this.scene = scene;
    const trace = await this.course.recordings.open(scene.trace);
    if (this.scene !== scene) return; // the learner has moved to another step
    const round = trace.rounds[Number(scene.round) - 1];
    this.place = { trace, round };
    this.walked = scene.show === "judged" || scene.show === "cache" ? round.stops.length : 0;
    this.looked = new Set();
    setText(this.words, "");
    this.draw();
    this.on.changed();
  }

  reveal() {
    if (!this.place) return;
    this.walked = this.place.round.stops.length;
    this.draw();
    this.on.changed();
  }

  // The node whose row of the mask the learner fills in.
  get chosen() {
    return Number(this.scene.node ?? 0);
  }

  /** @param {number} node */
  text(node) {
    const { trace, round } = /** @type {{ trace: Trace, round: Round }} */ (this.place);
    return node === ROOT
      ? (trace.main.tokens[round.firstToken - 1]?.text ?? "")
      : trace.text(round.tokenId(node));
  }

  get values() {
    const { place, chosen } = this;
    if (!place) return {};
    const { trace, round } = place;
    const { parent, depth } = round.record.tree.nodes;
    const first = parent.indexOf(ROOT);
    const taken = round.accepted[0] ?? first;
    const tried = triedBefore(round, taken);
    return {
      prompt: trace.header.prompt,
      model: trace.header.target.name,
      nodes: parent.length,
      deep: Math.max(...depth),
      branches: parent.filter((each) => each === ROOT).length,
      first: this.text(first),
      first_p: round.verdict(first).p,
      first_u: round.verdict(first).u ?? undefined,
      taken: this.text(taken),
      taken_p: round.verdict(taken).p,
      taken_accept: round.verdict(taken).accept,
      taken_u: round.verdict(taken).u ?? undefined,
      tried: tried.length,
      ...drawnSibling(round, taken),
      left: 1 - tried.reduce((sum, node) => sum + round.verdict(node).p, 0),
      kept: round.accepted.length,
      examined: round.stops.filter((stop) => stop !== EXTRA).length,
      unread: round.outcomes.filter((each) => each === "unreached").length,
      extra: round.extra ? this.text(EXTRA) : undefined,
      emitted: round.emitted.length,
      kept_slots: round.accepted.length + 1,
      dropped: round.outcomes.length - round.accepted.length,
      chosen: this.text(chosen),
      sees: mayLook(round, chosen).length,
      rows: parent.length + 1,
    };
  }

  judge() {
    const { place } = this;
    if (!place || this.walked === place.round.stops.length) return;
    this.walked += 1;
    this.draw();
    this.on.changed();
    if (this.walked < place.round.stops.length) return;
    const { round } = place;
    if (round.extraKind === "recovered" && !round.isGreedy)
      setText(
        this.words,
        `r is how probable ${tokenLabel(this.text(EXTRA))} is in the residual: in what is left of p.`,
      );
    this.on.reached("walked");
  }

  /** @param {number} row */
  look(row) {
    const { place, chosen } = this;
    if (!place) return;
    const right = mayLook(place.round, chosen);
    if (right.includes(row)) {
      this.looked.add(row);
      const isWhole = this.looked.size === right.length;
      const found =
        row === chosen
          ? "Itself: always."
          : `${tokenLabel(this.text(row))} is before it on its own path.`;
      setText(this.words, isWhole ? "That is its whole row." : `Yes. ${found}`);
      this.drawMask();
      if (isWhole) this.on.reached("masked");
    } else {
      setText(
        this.words,
        `No: ${tokenLabel(this.text(row))} is not on the way from the root to ${tokenLabel(this.text(chosen))}. For this guess that token was never written.`,
      );
    }
  }

  /** @param {number} row */
  keep(row) {
    const { place } = this;
    if (!place) return;
    const right = [ROOT, ...place.round.accepted];
    const name = tokenLabel(this.text(row));
    if (!right.includes(row)) {
      const why = place.round.outcomes[row] === "rejected" ? "was rejected" : "was never examined";
      return setText(this.words, `No: ${name} ${why}. It is not in the text.`);
    }
    this.looked.add(row);
    const isWhole = this.looked.size === right.length;
    setText(
      this.words,
      isWhole ? "Those stay; all others are given back." : `Yes: ${name} is in the text.`,
    );
    this.drawSlots();
    if (isWhole) this.on.reached("rolled-back");
  }

  draw() {
    const { place, scene } = this;
    if (!place) return;
    const { trace, round } = place;
    const before = trace.main.tokens
      .slice(Math.max(0, round.firstToken - CONTEXT), round.firstToken)
      .map(({ text }) => text)
      .join("");
    this.context.replaceChildren(
      element("span", "hint", `“${trace.header.prompt}” `),
      round.firstToken > CONTEXT ? "… " : "",
      before,
    );
    const isMask = scene.show === "mask";
    const isCache = scene.show === "cache";
    this.next.hidden = scene.show !== "walk";
    this.next.disabled = this.walked === round.stops.length;
    this.table.hidden = isMask || isCache || this.walked === 0;
    this.mask.hidden = !isMask;
    this.slots.hidden = !isCache;
    this.drawTree();
    if (isMask) this.drawMask();
    else if (isCache) this.drawSlots();
    else this.drawTable();
  }

  repaint() {
    this.drawTree();
  }

  // Draw the nodes with their current outcomes.
  drawTree() {
    if (!this.place) return;
    const { round } = this.place;
    const judged = new Set(round.stops.slice(0, this.walked));
    const role = (/** @type {number} */ node) =>
      node === EXTRA
        ? judged.has(EXTRA)
          ? (round.extraKind ?? "absent")
          : "absent"
        : judged.has(node)
          ? round.outcomes[node]
          : "unreached";
    const drawing = round.treeDrawing;
    const last = round.stops[this.walked - 1];
    const ring = this.scene.node ? this.chosen : (last ?? null);
    const { data, layout } = treeFigure(drawing, role, (_, [head]) => [head]);
    const shapes =
      ring === null || ring === EXTRA
        ? []
        : ringAround(drawing, ring, this.course.theme.selectColour);
    this.chart.draw({ data, layout: { ...layout, shapes } });
  }

  drawTable() {
    const { round } = /** @type {{ round: Round }} */ (this.place);
    const head = element("thead");
    const titles = element("tr");
    titles.append(...HEAD.map((each) => element("th", "", each)));
    head.append(titles);
    const body = element("tbody");
    for (const stop of round.stops.slice(0, this.walked)) body.append(this.row(round, stop));
    this.table.replaceChildren(head, body);
  }

  /**
   * @param {Round} round
   * @param {number} stop
   */
  row(round, stop) {
    const text = tokenLabel(this.text(stop));
    if (stop === EXTRA)
      return verdictRow(stop, text, extraNumbers(round).slice(0, 3), outcomeOf(round, stop) ?? "");
    const { p, accept, u } = round.verdict(stop);
    return verdictRow(
      stop,
      text,
      [probability(p), probability(accept), u === null ? "" : probability(u)],
      round.outcomes[stop],
    );
  }

  // Draw the mask with one row for each token of the forward. The cells of the chosen row are
  // buttons.
  drawMask() {
    const { round } = /** @type {{ round: Round }} */ (this.place);
    const rows = [ROOT, ...round.indices];
    const head = element("thead");
    const names = element("tr");
    names.append(
      element("td"),
      element("th", "mask-text", "text so far"),
      ...rows.map((row) => element("th", "", tokenLabel(this.text(row)))),
    );
    head.append(names);
    const body = element("tbody");
    for (const row of rows) body.append(this.maskRow(round, row, rows));
    keepingFocus(this.mask, () => this.mask.replaceChildren(head, body));
  }

  /**
   * @param {Round} round
   * @param {number} row
   * @param {number[]} rows
   */
  maskRow(round, row, rows) {
    const made = element("tr", row === this.chosen ? "is-chosen" : "");
    const seen = mayLook(round, row);
    made.append(element("th", "", tokenLabel(this.text(row))), element("td", "is-seen", "✓"));
    for (const other of rows) {
      const cell = element("td");
      if (row === this.chosen) cell.append(this.cell(other, seen));
      else if (seen.includes(other)) ((cell.className = "is-seen"), setText(cell, "✓"));
      made.append(cell);
    }
    return made;
  }

  /**
   * @param {number} other
   * @param {number[]} seen
   */
  cell(other, seen) {
    const made = this.button(other, seen.includes(other), this.looked.has(other) ? "✓" : "", () =>
      this.look(other),
    );
    made.setAttribute(
      "aria-label",
      `${tokenLabel(this.text(this.chosen))} may look at ${tokenLabel(this.text(other))}`,
    );
    return made;
  }

  drawSlots() {
    const { round } = /** @type {{ round: Round }} */ (this.place);
    const right = [ROOT, ...round.accepted];
    const made = [ROOT, ...round.indices].map((row) =>
      this.button(row, right.includes(row), tokenLabel(this.text(row)), () => this.keep(row)),
    );
    keepingFocus(this.slots, () =>
      this.slots.replaceChildren(element("span", "hint", "the text so far, then:"), ...made),
    );
  }

  // Return the button for a token. `isRight` is true if the exercise asks for this token.
  /**
   * @param {number} row
   * @param {boolean} isRight
   * @param {string} text
   * @param {() => void} press
   */
  button(row, isRight, text, press) {
    const isFound = this.looked.has(row);
    const made = element("button", isFound ? "is-seen" : "", text);
    made.type = "button";
    made.dataset.looked = String(row);
    made.dataset.seen = String(isRight);
    made.setAttribute("aria-pressed", String(isFound));
    made.addEventListener("click", press);
    return made;
  }
}

// Draw a part of the page again, and return the focus to the element that had it.
/**
 * @param {HTMLElement} box
 * @param {() => void} drawAnew
 */
function keepingFocus(box, drawAnew) {
  const held = box.contains(document.activeElement)
    ? /** @type {HTMLElement} */ (document.activeElement).dataset.looked
    : undefined;
  drawAnew();
  if (held !== undefined)
    /** @type {HTMLElement | null} */ (box.querySelector(`[data-looked="${held}"]`))?.focus({
      preventScroll: true,
    });
}
