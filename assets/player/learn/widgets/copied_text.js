// A widget about drafts that are copied from the text so far. Two drafters continue the same
// conversation, measured on this machine or recorded on another.

import { element, setText } from "../../shared/dom.js";
import { lookOf } from "../../shared/outcomes.js";
import { OrderWidget } from "../order_widget.js";
import { copiedNumbers, firstFailure, rowNumbers } from "./copied_rounds.js";

const LEGEND =
  "Underlined: the match. Then the copied draft, as far as it was kept and from where it failed, and the target’s own token in bold.";

export class CopiedText extends OrderWidget {
  static id = "copied-text";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "copies");
    this.shown = 0; // number of rounds that are shown
    this.talk = element("div", "copied-talk");
    this.talk.tabIndex = 0; // it scrolls, so the keyboard must reach it
    this.talk.setAttribute("role", "region");
    this.talk.setAttribute("aria-label", "The conversation");
    this.head = element("h3", "sweep-title");
    this.next = element("button", "primary", "Next round");
    this.next.type = "button";
    this.next.dataset.next = "";
    this.next.addEventListener("click", () => this.step());
    this.list = element("ol", "copied-rounds");
    this.table = element("table", "verdicts copied-table");
    this.words = element("p", "forward-words");
    this.words.setAttribute("role", "status");
    box.classList.add("copied-text");
    box.replaceChildren(
      this.talk,
      this.head,
      this.next,
      this.list,
      this.table,
      this.words,
      this.row.box,
    );
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.shown = 0;
    this.setOrder("copies", {}, scene.known === "true");
    this.row.box.hidden = scene.show !== "table" || scene.hidden === "true";
    this.draw();
    if (this.found && scene.show === "table" && scene.hidden !== "true") this.on.reached("shown");
  }

  reveal() {
    this.scene = { ...this.scene, hidden: "false" };
    this.showFound();
    this.row.box.hidden = this.scene.show !== "table";
    this.draw();
    this.on.changed();
  }

  // The measurement, or the recording before anything is measured. The conversation and the texts
  // are the same in both.
  /** @returns {import("./copied_rounds.js").CopiesMessage | null} */
  get message() {
    return this.found ?? this.planned;
  }

  /** @param {string} method */
  titleOf(method) {
    return this.course.setup.methods.find(({ name }) => name === method)?.title ?? method;
  }

  // The rounds of the drafter that this step shows.
  get rounds() {
    const { method, K } = this.scene;
    return (
      this.message?.rows.find((row) => row.method === method && row.K === Number(K))?.rounds ?? []
    );
  }

  get values() {
    return { ...copiedNumbers(this.message, Number(this.scene.K)), ...this.failed };
  }

  // The values of the first draft that failed.
  get failed() {
    const round = this.rounds[firstFailure(this.rounds)];
    return {
      failed_matched: round?.matched.length,
      failed_copied: round?.draft[round.kept],
      failed_wanted: round?.extra ?? undefined,
    };
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
    if (this.scene.show === "table") this.on.reached("shown");
  }

  draw() {
    const { scene, message } = this;
    if (!message) return setText(this.words, "Nothing is measured yet.");
    const isRounds = scene.show === "rounds";
    const isTable = scene.show === "table";
    this.drawTalk(message);
    this.next.hidden = this.list.hidden = !isRounds;
    this.next.disabled = this.shown >= this.rounds.length;
    this.table.hidden = !isTable;
    this.head.hidden = scene.show === "prompt";
    setText(
      this.head,
      isRounds
        ? `${this.titleOf(scene.method)}, K = ${scene.K}: drafts of the next answer`
        : `Both write the same answer, K = ${scene.K}`,
    );
    if (isRounds) this.drawRounds();
    if (isTable) this.drawTable();
    setText(this.words, !isRounds ? "" : this.shown ? LEGEND : "No round yet.");
  }

  /** @param {import("./copied_rounds.js").CopiesMessage} message */
  drawTalk({ turns }) {
    this.talk.hidden = this.scene.show === "table";
    this.talk.replaceChildren(
      ...turns.map(({ role, content }) => {
        const turn = element("p");
        turn.append(
          element("b", "hint", role === "user" ? "user and tool" : "model"),
          " ",
          content,
        );
        return turn;
      }),
    );
    if (this.scene.show === "rounds") this.talk.scrollTop = this.talk.scrollHeight;
  }

  // List the rounds so far, the newest first.
  drawRounds() {
    const rows = this.rounds.slice(0, this.shown).map((round, at) => this.roundRow(round, at));
    this.list.replaceChildren(...rows.reverse());
  }

  /**
   * @param {import("./copied_rounds.js").CopiedRound} round
   * @param {number} at
   */
  roundRow({ matched, draft, kept, extra }, at) {
    const row = element("li");
    const text = element("p", "copied-draft");
    if (matched.length) text.append(element("u", "", visible(matched.join(""))));
    if (kept) text.append(element("mark", "accepted", visible(draft.slice(0, kept).join(""))));
    if (kept < draft.length)
      text.append(element("s", "rejected", visible(draft.slice(kept).join(""))));
    if (extra !== null) text.append(element("b", "", visible(extra)));
    const facts = element("p", "hint");
    const mark = lookOf(kept === draft.length ? "accepted" : "rejected").mark;
    facts.append(
      `Round ${at + 1}: ${matched.length} tokens match, ${draft.length} copied, ${mark} ${kept} kept`,
    );
    row.append(facts, text);
    return row;
  }

  drawTable() {
    const { scene, message } = this;
    const isShown = scene.hidden !== "true" && this.found !== null;
    const head = element("tr");
    for (const name of [
      "drafter",
      "rounds",
      "tokens a round",
      "drafted",
      "accepted",
      "longest draft",
    ])
      head.append(element("th", "", name));
    const rows = (message?.rows ?? [])
      .filter(({ K }) => K === Number(scene.K))
      .map((each) => {
        const {
          rounds = 0,
          per_round: pace = 0,
          drafted = 0,
          kept = 0,
          used = 0,
          longest = 0,
        } = rowNumbers(each);
        const numbers = [
          String(rounds),
          pace.toFixed(2),
          String(drafted),
          `${kept} (${(100 * used).toFixed(0)} %)`,
          String(longest),
        ];
        const row = element("tr");
        row.append(
          element("td", "", this.titleOf(each.method)),
          ...numbers.map((number) => element("td", "number", isShown ? number : "?")),
        );
        return row;
      });
    const [top, body] = [element("thead"), element("tbody")];
    top.append(head);
    body.append(...rows);
    this.table.replaceChildren(top, body);
  }
}

// Show line breaks, which separate the messages of a conversation, as a sign.
/** @param {string} text */
function visible(text) {
  return text.replaceAll("\n", "↵");
}
