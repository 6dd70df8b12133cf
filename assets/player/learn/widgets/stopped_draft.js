// A widget about the end of a draft: fixed lengths, the adaptive length and an oracle write the same
// text. The runs are measured on this machine or recorded on another.

import { element, setText } from "../../shared/dom.js";
import { OrderWidget } from "../order_widget.js";
import { firstFailure } from "./copied_rounds.js";
import {
  bestFixed,
  stopNumbers,
  stopPossible,
  stopValues,
  typicalSeconds,
  waysOf,
} from "./stop_numbers.js";

const LEGEND =
  "First the guesses that were kept, then those that were drafted for nothing, and the target’s own token in bold.";

export class StoppedDraft extends OrderWidget {
  static id = "stopped-draft";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "stops");
    this.shown = 0; // number of rounds that are shown
    this.head = element("h3", "sweep-title");
    this.next = element("button", "primary", "Next round");
    this.next.type = "button";
    this.next.dataset.next = "";
    this.next.addEventListener("click", () => this.step());
    this.list = element("ol", "copied-rounds");
    this.list.tabIndex = 0; // it scrolls, so the keyboard must reach it
    this.list.setAttribute("aria-label", "The rounds, newest first");
    this.table = element("table", "verdicts copied-table");
    this.words = element("p", "forward-words");
    this.words.setAttribute("role", "status");
    box.classList.add("copied-text");
    box.replaceChildren(this.head, this.next, this.list, this.table, this.words, this.row.box);
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.shown = 0;
    this.setOrder("stops", {}, scene.known === "true");
    this.row.box.hidden = !this.isTable || scene.hidden === "true";
    this.draw();
    if (this.found && this.isTable && scene.hidden !== "true") this.on.reached("shown");
  }

  reveal() {
    this.scene = { ...this.scene, hidden: "false" };
    this.showFound();
    this.draw();
    this.on.changed();
  }

  get isTable() {
    return this.scene.show === "table";
  }

  // The measurement, or the recording before anything is measured. The rounds are the same in both.
  /** @returns {import("./stop_numbers.js").StopsMessage | null} */
  get message() {
    return this.found ?? this.planned;
  }

  // The rounds of the longest fixed draft.
  get rounds() {
    return waysOf(this.message, this.scene.task)?.longest.rounds ?? [];
  }

  get values() {
    const { task, other } = this.scene;
    const round = this.rounds[firstFailure(this.rounds)];
    return {
      ...stopValues(this.message, task, other),
      failed_kept: round?.kept,
      failed_thrown: round && round.draft.length - round.kept,
    };
  }

  get possible() {
    return stopPossible(this.message, this.scene.task, this.scene.other);
  }

  step() {
    const { rounds } = this;
    if (this.shown >= rounds.length) return;
    this.shown += 1;
    this.draw();
    this.on.changed();
    if (this.shown > firstFailure(rounds)) this.on.reached("failed");
  }

  came() {
    this.draw();
    if (this.isTable) this.on.reached("shown");
  }

  draw() {
    const { isTable, message, scene } = this;
    if (!message) return setText(this.words, "Nothing is measured yet.");
    const longest = waysOf(message, scene.task)?.longest.K;
    this.next.hidden = this.list.hidden = isTable;
    this.next.disabled = this.shown >= this.rounds.length;
    this.table.hidden = !isTable;
    setText(
      this.head,
      isTable ? `The same text of the task ${scene.task}` : `Drafts of K = ${longest}`,
    );
    if (isTable) this.drawTable(message);
    else this.drawRounds();
    const isShown = isTable ? this.isShown : this.shown > 0;
    const words = isTable ? TIMES : LEGEND;
    setText(this.words, isShown ? words : isTable ? "Nothing is measured yet." : "No round yet.");
  }

  get isShown() {
    return this.scene.hidden !== "true" && this.found !== null;
  }

  // List the rounds so far, the newest first.
  drawRounds() {
    const rows = this.rounds.slice(0, this.shown).map((round, at) => roundRow(round, at));
    this.list.replaceChildren(...rows.reverse());
  }

  /** @param {import("./stop_numbers.js").StopsMessage} message */
  drawTable(message) {
    const { task, other } = this.scene;
    const seconds = typicalSeconds(message.seconds);
    const ways = waysOf(message, task);
    if (!ways) return;
    const best = bestFixed(message, task, seconds);
    const moved = other ? bestFixed(message, other, seconds).K : best.K;
    const kept = ways.fixed.find(({ K }) => K === moved) ?? best;
    const known = this.isShown ? `, K = ${best.K}` : "";
    /** @type {[string, import("./stop_numbers.js").StopRound[]][]} */
    const rows = [
      ...(other
        ? /** @type {[string, import("./stop_numbers.js").StopRound[]][]} */ ([
            [`fixed, K = ${moved} (best for ${other})`, kept.rounds],
          ])
        : []),
      [`fixed, best afterwards${known}`, best.rounds],
      [`adaptive, up to K = ${ways.longest.K}`, ways.adaptive.rounds],
      [`oracle, up to K = ${ways.longest.K}`, ways.oracle],
    ];
    const head = element("tr");
    for (const name of ["draft", "rounds", "drafted", "kept", "speedup"])
      head.append(element("th", "", name));
    const lines = rows.map(([name, rounds]) => {
      const found = stopNumbers(rounds, seconds);
      const line = element("tr");
      const numbers = [found.rounds, found.drafted, found.kept, `${found.speedup.toFixed(2)}×`];
      line.append(
        element("td", "", name),
        ...numbers.map((each) => element("td", "number", this.isShown ? String(each) : "?")),
      );
      return line;
    });
    const [top, body] = [element("thead"), element("tbody")];
    top.append(head);
    body.append(...lines);
    this.table.replaceChildren(top, body);
  }
}

const TIMES =
  "Speedup over plain decoding, if each round takes the typical time of a round with as many drafted tokens.";

/**
 * @param {import("./stop_numbers.js").StopRound} round
 * @param {number} at
 */
function roundRow({ draft, kept, extra }, at) {
  const row = element("li");
  const text = element("p", "copied-draft");
  if (kept) text.append(element("mark", "accepted", visible(draft.slice(0, kept).join(""))));
  if (kept < draft.length)
    text.append(element("s", "rejected", visible(draft.slice(kept).join(""))));
  if (extra !== null) text.append(element("b", "", visible(extra)));
  row.append(element("p", "hint", `Round ${at + 1}: ${draft.length} drafted, ${kept} kept`), text);
  return row;
}

// Show line breaks as a sign.
/** @param {string} text */
function visible(text) {
  return text.replaceAll("\n", "↵");
}
