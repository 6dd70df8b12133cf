// A widget about a vocabulary of two words, in which every draft can be listed. The server
// enumerates all drafts and draws with the decoder's own rules
// (specviz/experiments/run/enumerated_rules.py).

import { element, setText } from "../../shared/dom.js";
import { probability } from "../../shared/number_words.js";
import { Widget } from "../widget.js";

const WORDS = ["A", "B"];
const SAME = 5e-4; // a smaller difference between accepted words counts as none
/** @type {[string, string, number, number, number][]} name, label, lowest value, highest value, step */
const SLIDERS = [
  ["p", "p, the target says A", 0, 1, 0.05],
  ["q", "q, the draft says A", 0, 1, 0.05],
  ["K", "K, guesses ahead", 1, 3, 1],
];
/** @type {Record<string, string>} */
const TITLES = {
  token: "Token by token",
  block: "Block verification",
  "first-failure": "Limits of the block, stopped at the first failure",
};

export class TwoWords extends Widget {
  static id = "two-words";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on);
    /** @type {Record<string, string>} */
    this.scene = {};
    /** @type {Record<string, number>} */
    this.at = { p: 1 / 3, q: 2 / 3, K: 2 };
    /** @type {any} the server's answer */
    this.answer = null;
    this.asked = 0;
    this.isMoved = false;
    this.isRevealed = false;
    this.sliders = SLIDERS.map((each) => this.slider(each));
    this.words = element("p", "length-words");
    this.words.setAttribute("aria-live", "polite");
    this.list = element("div", "two-words-list");
    box.classList.add("two-words");
    box.replaceChildren(...this.sliders.map(({ label }) => label), this.words, this.list);
  }

  /** @param {[string, string, number, number, number]} of */
  slider([name, words, low, high, step]) {
    const label = element("label", "length-slider");
    const input = element("input");
    input.type = "range";
    [input.min, input.max, input.step] = [low, high, step].map(String);
    input.dataset.name = name;
    const number = element("span", "number");
    input.addEventListener("input", () => this.move(name, Number(input.value)));
    label.append(element("span", "", words), input, number);
    return { name, label, input, number };
  }

  /** @param {Record<string, string>} scene */
  async set(scene) {
    this.scene = scene;
    this.at = { p: 1 / 3, q: 2 / 3, K: 2 };
    this.isMoved = this.isRevealed = false;
    for (const { input, label } of this.sliders) {
      input.disabled = scene.fixed === "true";
      label.hidden = scene.show === "texts";
    }
    await this.ask();
  }

  reveal() {
    this.isRevealed = true;
    this.draw();
    this.on.changed();
  }

  /**
   * @param {string} name
   * @param {number} value
   */
  move(name, value) {
    this.at = { ...this.at, [name]: value };
    this.isMoved = true;
    this.ask();
  }

  // Ask the server for all drafts. Only the answer to the latest question is used.
  async ask() {
    const number = (this.asked += 1);
    for (const { name, input, number: shown } of this.sliders) {
      input.value = String(this.at[name]);
      setText(shown, name === "K" ? String(this.at.K) : this.at[name].toFixed(2));
    }
    const answer = await this.course.drive.ask("two_words", this.at);
    if (number !== this.asked) return;
    if (!answer || answer.error)
      return setText(this.words, answer?.error ?? "The server cannot be reached.");
    this.answer = answer;
    this.draw();
    if (this.isMoved && this.gain < SAME) this.on.reached("equal-rules");
    this.on.changed();
  }

  get gain() {
    return this.answer ? this.answer.block.accepted - this.answer.token.accepted : NaN;
  }

  // The draft whose first word is A and whose other words are B.
  get chosen() {
    return (
      this.answer?.block.drafts.findIndex((/** @type {any} */ { words }) =>
        words.every(
          (/** @type {number} */ word, /** @type {number} */ at) => word === Number(at > 0),
        ),
      ) ?? -1
    );
  }

  get values() {
    const { answer, chosen, at } = this;
    const [token, block] = [answer?.token, answer?.block];
    const draft = block?.drafts[chosen];
    return {
      p: at.p,
      q: at.q,
      K: at.K,
      draft: draft && spelled(draft.words),
      drafted: draft?.drafted,
      wanted: draft?.wanted,
      token_kept: token?.drafts[chosen].kept,
      block_kept: draft?.kept,
      token_accepted: token?.accepted,
      block_accepted: block?.accepted,
      gain: answer ? block.accepted / token.accepted - 1 : undefined,
      token_distance: token && rounded(token.distance),
      block_distance: block && rounded(block.distance),
      wrong_distance: answer?.["first-failure"].distance,
      wrong_accepted: answer?.["first-failure"].accepted,
    };
  }

  get isTold() {
    return this.scene.hidden !== "true" || this.isRevealed;
  }

  draw() {
    const { answer, scene } = this;
    if (!answer) return;
    const isTexts = scene.show === "texts";
    if (isTexts)
      this.list.replaceChildren(
        ...["token", "block", "first-failure"].map((name) => this.texts(name)),
      );
    else this.list.replaceChildren(this.drafts());
    const { token, block } = answer;
    this.words.hidden = isTexts || !this.isTold;
    setText(
      this.words,
      isTexts || !this.isTold
        ? ""
        : `Accepted on average: ${token.accepted.toFixed(3)} token by token, ${block.accepted.toFixed(3)} as a block.`,
    );
  }

  // List all drafts, with how often each is written and how often each rule keeps all of it.
  drafts() {
    const { token, block } = this.answer;
    const table = element("table", "verdicts two-words-table");
    const head = element("tr");
    for (const name of ["draft", "drafted", "by the target", "kept, token by token", "kept, block"])
      head.append(element("th", "", name));
    const rows = block.drafts.map((/** @type {any} */ draft, /** @type {number} */ at) => {
      const row = element("tr", at === this.chosen ? "is-chosen" : "");
      const kept = [token.drafts[at].kept, draft.kept].map((share) =>
        draft.drafted === 0 ? "–" : this.isTold ? percent(share) : "?",
      );
      row.append(
        element("td", "token-text", spelled(draft.words)),
        ...[draft.drafted, draft.wanted].map((share) =>
          element("td", "number", probability(share)),
        ),
        ...kept.map((text) => element("td", "number", text)),
      );
      return row;
    });
    const [top, body] = [element("thead"), element("tbody")];
    top.append(head);
    body.append(...rows);
    table.append(top, body);
    return table;
  }

  // Draw a bar with the probability that each text has under a rule, and a mark at the target's own
  // probability.
  /** @param {string} name */
  texts(name) {
    const rule = this.answer[name];
    const isHidden = name === "first-failure" && !this.isTold;
    const made = element("section", "two-words-rule");
    const title = element("h3", "sweep-title", TITLES[name]);
    const most = Math.max(
      ...rule.texts.flatMap((/** @type {any} */ { came, wanted }) => [came, wanted]),
      0.01,
    );
    const list = element("ol", "sweep-bars two-words-texts");
    list.append(
      ...rule.texts.map((/** @type {any} */ { words, came, wanted }) => {
        const row = element("li");
        const track = element("span", "sweep-track");
        const bar = element("i");
        bar.style.width = `${isHidden ? 0 : (100 * came) / most}%`;
        const goal = element("i", "chain-draw");
        goal.style.left = `${(100 * wanted) / most}%`;
        track.append(bar, goal);
        row.append(
          element("span", "sweep-name token-text", spelled(words)),
          track,
          element("span", "number", isHidden ? "?" : percent(came)),
        );
        return row;
      }),
    );
    made.append(
      title,
      list,
      element(
        "p",
        "hint",
        isHidden
          ? "Not shown yet."
          : `Distance from the target: ${probability(rounded(rule.distance))}. The marks are the target’s own probabilities.`,
      ),
    );
    return made;
  }
}

/** @param {number[]} words */
function spelled(words) {
  return words.map((word) => WORDS[word]).join(" ");
}

/** @param {number} share */
function percent(share) {
  return `${(100 * share).toFixed(0)} %`;
}

// Return 0 for a distance that comes only from rounding, which is about 1e-17.
/** @param {number} distance */
function rounded(distance) {
  return distance < 1e-9 ? 0 : distance;
}
