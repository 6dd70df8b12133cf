// A widget about tokens that a grammar forces. The learner marks them in an answer, and compares
// decoding with and without them as drafts, measured on this machine or recorded on another.

import { element, setText } from "../../shared/dom.js";
import { counted } from "../../shared/number_words.js";
import { tokenLabel } from "../../shared/token_label.js";
import { OrderWidget } from "../order_widget.js";
import { freeNumbers, isForced, markedCounts, perRound } from "./free_numbers.js";

export class FreeTokens extends OrderWidget {
  static id = "free-tokens";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on, "forced");
    /** @type {Set<number>} indices of the tokens that the learner has marked */
    this.marked = new Set();
    this.isCompared = false;
    this.asked = element("div", "copied-talk");
    this.asked.tabIndex = 0; // it scrolls, so the keyboard must reach it
    this.asked.setAttribute("role", "region");
    this.asked.setAttribute("aria-label", "The prompt and the schema");
    this.chips = element("div", "free-chips");
    this.chips.setAttribute("role", "group");
    this.chips.setAttribute("aria-label", "The tokens of the answer");
    this.compare = element("button", "primary", "Compare");
    this.compare.type = "button";
    this.compare.dataset.compare = "";
    this.compare.addEventListener("click", () => this.showAllowed());
    this.words = element("p", "forward-words");
    this.words.setAttribute("role", "status");
    this.table = element("table", "verdicts copied-table");
    box.classList.add("copied-text");
    box.replaceChildren(this.asked, this.chips, this.compare, this.words, this.table, this.row.box);
  }

  /** @param {Record<string, string>} scene */
  set(scene) {
    this.scene = scene;
    this.marked = new Set();
    this.isCompared = false;
    this.setOrder("forced", {}, scene.known === "true");
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

  // The measurement, or the recording before anything is measured. The answer is the same in both.
  /** @returns {import("./free_numbers.js").ForcedMessage | null} */
  get message() {
    return this.found ?? this.planned;
  }

  get values() {
    return freeNumbers(this.message);
  }

  showAllowed() {
    this.isCompared = true;
    this.draw();
    this.on.reached("compared");
  }

  came() {
    this.draw();
    if (this.scene.show === "table") this.on.reached("shown");
  }

  draw() {
    const { message, scene } = this;
    const { show } = scene;
    this.asked.hidden = show !== "prompt" || !message;
    this.chips.hidden = this.compare.hidden = show !== "mark" || !message;
    this.table.hidden = show !== "table" || !message;
    if (!message) return setText(this.words, "Nothing is measured yet.");
    setText(this.words, "");
    if (show === "prompt") this.drawAsked(message);
    if (show === "mark") this.drawChips(message);
    if (show === "table") this.drawTable(message);
  }

  /** @param {import("./free_numbers.js").ForcedMessage} message */
  drawAsked({ prompt, grammar }) {
    const parts = [
      ["user", prompt],
      ["schema", JSON.stringify(JSON.parse(grammar), null, 1)],
    ].map(([name, text]) => {
      const part = element("p");
      part.append(element("b", "hint", name), " ", text);
      return part;
    });
    this.asked.replaceChildren(...parts);
  }

  /** @param {import("./free_numbers.js").ForcedMessage} message */
  drawChips({ tokens }) {
    const { marked, isCompared } = this;
    this.compare.disabled = isCompared;
    this.chips.replaceChildren(
      ...tokens.map((token, at) => {
        const made = element("button", "free-chip");
        made.type = "button";
        made.disabled = isCompared;
        made.setAttribute("aria-pressed", String(marked.has(at)));
        made.append(element("span", "token-chip", tokenLabel(token.text)));
        if (isCompared) {
          made.classList.toggle("is-forced", isForced(token));
          made.append(element("small", "", token.allowed.toLocaleString("en")));
        }
        made.addEventListener("click", () => {
          if (!marked.delete(at)) marked.add(at);
          made.setAttribute("aria-pressed", String(marked.has(at)));
        });
        return made;
      }),
    );
    if (!isCompared) return;
    const { right, wrong } = markedCounts(tokens, marked);
    const forced = counted(tokens.filter(isForced).length, "token");
    setText(
      this.words,
      `You marked ${right} of the ${forced} that were forced, and ${wrong} that were not.`,
    );
  }

  /** @param {import("./free_numbers.js").ForcedMessage} message */
  drawTable({ rows }) {
    const isShown = this.scene.hidden !== "true" && this.found !== null;
    const head = element("tr");
    for (const name of ["draft", "rounds", "tokens a round", "forced drafts", "the target’s text?"])
      head.append(element("th", "", name));
    const lines = rows.map((each) => {
      const numbers = [
        String(each.rounds),
        perRound(each).toFixed(2),
        String(each.forced),
        each.is_same ? "the same" : "another",
      ];
      const line = element("tr");
      line.append(
        element("td", "", each.drafts_forced ? "copies and forced tokens" : "copies"),
        ...numbers.map((number) => element("td", "number", isShown ? number : "?")),
      );
      return line;
    });
    const [top, body] = [element("thead"), element("tbody")];
    top.append(head);
    body.append(...lines);
    this.table.replaceChildren(top, body);
  }
}
