// A widget about a batch of texts that are decoded together. For each text it shows the drafted
// tokens of a round, their outcomes, and the progress. The rounds are real, measured here or
// recorded.

import { BatchRows, roundWords } from "../../shared/batch_rows.js";
import { element, setText } from "../../shared/dom.js";
import { OrderWidget } from "../order_widget.js";
import { batchNumbers } from "./ragged_rows.js";

export class RaggedBatch extends OrderWidget {
  static id = "ragged-batch";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "batch");
    this.at = 0; // number of finished rounds
    this.isTold = true; // true if the outcomes of the shown round are visible
    this.rows = new BatchRows();
    this.words = element("p", "forward-words");
    this.words.setAttribute("role", "status");
    this.next = element("button", "primary", "Next look");
    this.next.type = "button";
    this.next.dataset.next = "";
    this.next.addEventListener("click", () => this.go());
    this.bars = element("ol", "forward-bars");
    this.bars.setAttribute("aria-label", "Time of a look at the whole batch");
    box.classList.add("ragged-batch");
    box.replaceChildren(this.rows.box, this.bars, this.words, this.next, this.row.box);
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

  // The number of texts that ended before this round.
  get ended() {
    return (this.found?.rows ?? []).filter(
      (/** @type {any} */ { rounds }) => rounds.length < this.at,
    ).length;
  }

  draw() {
    const { found, scene } = this;
    if (!found) return;
    const isCost = scene.show === "cost";
    this.next.hidden = scene.show !== "walk";
    this.next.disabled = this.at === this.looks;
    this.rows.draw(found.rows, this.at, this.isTold);
    this.rows.box.hidden = isCost;
    this.bars.hidden = !isCost;
    if (isCost) this.drawCost();
    setText(this.words, isCost ? this.costSentence() : this.sentence());
  }

  sentence() {
    return roundWords(this.found, this.at, "Look");
  }

  costSentence() {
    const { own_pace: pace = 0, gain = 0 } = batchNumbers(this.found);
    return this.isTold
      ? `A plain look brings each row one token, a look with drafts ${pace.toFixed(2)} on average: ${gain.toFixed(2)} times as fast, all in all.`
      : "";
  }

  drawCost() {
    const {
      plain_time: plain,
      look_time: look,
      plain_ran: plainRan,
      ran,
    } = batchNumbers(this.found);
    const most = Math.max(plain ?? 0, look ?? 0);
    const rows = [
      [`plain, ${plainRan} tokens`, plain ?? 0],
      [`with drafts, ${ran} tokens`, look ?? 0],
    ];
    this.bars.replaceChildren(
      ...rows.map(([words, seconds]) =>
        bar(String(words), Number(seconds), this.isTold ? most : 0),
      ),
    );
  }
}

/**
 * @param {string} words
 * @param {number} seconds
 * @param {number} most seconds of the longest bar; 0 shows no times
 */
function bar(words, seconds, most) {
  const row = element("li");
  const track = element("span", "forward-track");
  const made = element("i");
  made.style.width = most ? `${(100 * seconds) / most}%` : "0";
  track.append(made);
  row.append(
    element("span", "forward-count", words),
    track,
    element("span", "number", most ? `${(1000 * seconds).toPrecision(3)} ms` : "?"),
  );
  return row;
}
