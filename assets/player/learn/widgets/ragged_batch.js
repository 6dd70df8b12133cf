// A batch of texts that are decoded together, row by row: each row's guesses in a look, what became of them,
// and how far its text has come. Real rounds, measured here or recorded.

import { element, setText } from "../../shared/dom.js";
import { tokenLabel } from "../../shared/token_label.js";
import { OrderWidget } from "../order_widget.js";
import { batchNumbers, promptLine, writtenBy } from "./ragged_rows.js";

const SEEN = 74; // characters of a text, the last ones

export class RaggedBatch extends OrderWidget {
  static id = "ragged-batch";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "batch");
    this.at = 0; // looks that are over
    this.isTold = true; // what became of the guesses of the look that is shown
    this.rows = element("ol", "batch-rows");
    this.rows.setAttribute("aria-label", "Rows of the batch");
    this.words = element("p", "forward-words");
    this.words.setAttribute("role", "status");
    this.next = element("button", "primary", "Next look");
    this.next.type = "button";
    this.next.dataset.next = "";
    this.next.addEventListener("click", () => this.go());
    this.bars = element("ol", "forward-bars");
    this.bars.setAttribute("aria-label", "Time of a look at the whole batch");
    box.classList.add("ragged-batch");
    box.replaceChildren(this.rows, this.bars, this.words, this.next, this.row.box);
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.isTold = scene.show !== "ask" && scene.hidden !== "true";
    this.setOrder("batch", {}, true);
    this.row.box.hidden = !this.isTold;
    this.begin();
  }

  reveal() {
    this.isTold = true;
    this.draw();
  }

  came() {
    this.begin();
  }

  begin() {
    const { show } = this.scene;
    this.at = show === "ask" ? 1 : show === "walk" ? 0 : this.looks;
    this.draw();
  }

  get looks() {
    return this.found?.steps.length ?? 0;
  }

  go() {
    if (this.at === this.looks) return;
    this.at += 1;
    this.draw();
    this.on.changed();
    if (this.at === this.looks) this.on.reached("stepped");
  }

  progress({ done = 0, lane = "" }) {
    return `${lane === "baseline" ? "plain" : "with drafts"}: look ${done}`;
  }

  get values() {
    const { ended } = this;
    return { ...batchNumbers(this.found), look: this.at || undefined, ended: ended || undefined };
  }

  // Rows that have ended before this look.
  get ended() {
    return (this.found?.rows ?? []).filter((/** @type {any} */ { rounds }) => rounds.length < this.at).length;
  }

  // ---- drawing

  draw() {
    const { found, scene } = this;
    if (!found) return;
    const isCost = scene.show === "cost";
    this.next.hidden = scene.show !== "walk";
    this.next.disabled = this.at === this.looks;
    this.rows.replaceChildren(...found.rows.map((/** @type {any} */ row) => this.rowOf(row)));
    this.rows.hidden = isCost;
    this.bars.hidden = !isCost;
    if (isCost) this.drawCost();
    setText(this.words, isCost ? this.costSentence() : this.sentence());
  }

  sentence() {
    const { at, found } = this;
    if (!at) return `${found.rows.length} prompts have been read. Each row has one token.`;
    const { rows, tokens, padding, seconds } = found.steps[at - 1];
    const empty = padding ? `, ${padding} places stayed empty` : "";
    return `Look ${at} of ${this.looks}: ${tokens} ${tokens === 1 ? "token" : "tokens"} of ${rows} ${rows === 1 ? "row" : "rows"} ran together in ${(1000 * seconds).toPrecision(3)} ms${empty}.`;
  }

  costSentence() {
    const { own_pace: pace = 0, gain = 0 } = batchNumbers(this.found);
    return this.isTold ? `A plain look brings each row one token, a look with drafts ${pace.toFixed(2)} on average: ${gain.toFixed(2)} times as fast, all in all.` : "";
  }

  /** @param {import("./ragged_rows.js").BatchRow} row */
  rowOf(row) {
    const { at } = this;
    const isOver = row.rounds.length < at;
    const made = element("li", isOver ? "is-over" : "");
    const round = isOver ? undefined : row.rounds[at - 1];
    const before = this.isTold ? at : at - 1;
    const text = [row.first, ...row.rounds.slice(0, before).flatMap(({ written }) => written)].join("");
    made.append(element("span", "batch-prompt", promptLine(row.prompt)), this.track(row, before), this.text(text), this.guesses(round, isOver));
    return made;
  }

  // A square for each token, those of a look together.
  /**
   * @param {import("./ragged_rows.js").BatchRow} row
   * @param {number} looks
   */
  track(row, looks) {
    const track = element("span", "batch-track");
    const counts = [1, ...writtenBy(row, looks)];
    for (const count of counts) {
      const group = element("span", "batch-look");
      group.append(...Array.from({ length: count }, () => element("i")));
      track.append(group);
    }
    const total = counts.reduce((sum, each) => sum + each, 0);
    track.append(element("b", "number", `${total} ${total === 1 ? "token" : "tokens"}`));
    return track;
  }

  /** @param {string} text */
  text(text) {
    return element("span", "batch-text", text.length > SEEN ? `… ${text.slice(-SEEN)}` : text.trimStart());
  }

  /**
   * @param {import("./ragged_rows.js").RowRound | undefined} round
   * @param {boolean} isOver
   */
  guesses(round, isOver) {
    const box = element("span", "batch-guesses");
    if (!round) {
      box.append(element("span", "hint", isOver ? "has ended: its place is free" : ""));
      return box;
    }
    round.guesses.forEach((guess, at) => {
      const outcome = this.isTold ? round.outcomes[at] : "";
      box.append(element("span", `typed-guess ${outcome}`, tokenLabel(guess)));
    });
    const kept = round.outcomes.filter((outcome) => outcome === "accepted").length;
    const added = round.written[kept];
    if (this.isTold && added !== undefined) box.append(element("span", "hint", "+ "), element("span", "batch-added", tokenLabel(added)));
    return box;
  }

  drawCost() {
    const { plain_time: plain, look_time: look, plain_ran: plainRan, ran } = batchNumbers(this.found);
    const most = Math.max(plain ?? 0, look ?? 0);
    const rows = [[`plain, ${plainRan} tokens`, plain ?? 0], [`with drafts, ${ran} tokens`, look ?? 0]];
    this.bars.replaceChildren(...rows.map(([words, seconds]) => bar(String(words), Number(seconds), this.isTold ? most : 0)));
  }
}

/**
 * @param {string} words
 * @param {number} seconds
 * @param {number} most 0: nothing is told yet
 */
function bar(words, seconds, most) {
  const row = element("li");
  const track = element("span", "forward-track");
  const made = element("i");
  made.style.width = most ? `${(100 * seconds) / most}%` : "0";
  track.append(made);
  row.append(element("span", "forward-count", words), track, element("span", "number", most ? `${(1000 * seconds).toPrecision(3)} ms` : "?"));
  return row;
}
