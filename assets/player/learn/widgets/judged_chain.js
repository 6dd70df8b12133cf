// A widget about one recorded draft and two rules. Token by token goes along the chain and stops at
// the first failure. Block verification reads the chain from its end.

import { element, setText } from "../../shared/dom.js";
import { probability } from "../../shared/number_words.js";
import { lookOf } from "../../shared/outcomes.js";
import { tokenLabel } from "../../shared/token_label.js";
import { Widget } from "../widget.js";
import { chainGuesses, examined, keptAsBlock, keptByToken, owedAfter } from "./chain_verdicts.js";

const CONTEXT = 14; // tokens of the text before the draft
const LEGENDS = {
  chain:
    "The bar is p/q, the target’s probability of the guess divided by the draft’s. The mark is 1: equally probable.",
  token:
    "The bar is min(1, p/q), the mark is the draw u. A guess passes if the mark is on the bar.",
  block:
    "The frame is the carried ratio, the bar is the limit h, the mark is the draw u. Read it from the end.",
};

export class JudgedChain extends Widget {
  static id = "judged-chain";

  /**
   * @param {HTMLElement} box
   * @param {Course} course
   * @param {WidgetEvents} on
   */
  constructor(box, course, on) {
    super(box, course, on);
    /** @type {Record<string, string>} */
    this.scene = {};
    /** @type {{ trace: Trace, round: Round, guesses: import("./chain_verdicts.js").ChainGuess[] } | null} */
    this.place = null;
    this.walked = 0; // number of verdicts that are shown
    this.isRevealed = false;
    this.context = element("p", "guess-context");
    this.tables = element("div", "chain-tables");
    this.next = element("button", "primary", "Next verdict");
    this.next.type = "button";
    this.next.dataset.next = "";
    this.next.addEventListener("click", () => this.judge());
    this.words = element("p", "forward-words");
    this.words.setAttribute("role", "status");
    box.classList.add("judged-chain");
    box.replaceChildren(this.context, this.tables, this.next, this.words);
  }

  /** @param {Record<string, string>} scene */
  async set(scene) {
    this.scene = scene;
    const trace = await this.course.recordings.open(scene.trace);
    if (this.scene !== scene) return; // the learner has moved to another step
    const round = trace.rounds[Number(scene.round) - 1];
    this.place = { trace, round, guesses: chainGuesses(round) };
    this.walked = 0;
    this.isRevealed = false;
    this.draw();
    this.on.changed();
  }

  reveal() {
    this.isRevealed = true;
    this.draw();
    this.on.changed();
  }

  get isBlock() {
    return this.scene.show === "block";
  }

  // The guesses in the order of the walk of this step.
  get order() {
    return this.place ? examined(this.place.guesses, this.isBlock) : [];
  }

  judge() {
    if (this.walked >= this.order.length) return;
    this.walked += 1;
    this.draw();
    this.on.changed();
    if (this.walked === this.order.length) this.on.reached("walked");
  }

  // The largest p/q of the chain, which fills the bar.
  get largest() {
    return Math.max(1, ...(this.place?.guesses ?? []).map(({ ratio }) => ratio));
  }

  /** @param {number} at */
  text(at) {
    const { trace, round } = /** @type {NonNullable<JudgedChain["place"]>} */ (this.place);
    return trace.text(round.tokenId(at));
  }

  get values() {
    const { place } = this;
    if (!place) return {};
    const { trace, guesses } = place;
    const [byToken, asBlock] = [keptByToken(guesses), keptAsBlock(guesses)];
    const weak = Math.min(byToken, guesses.length - 1);
    const after = Math.min(weak + 1, guesses.length - 1);
    const end = Math.max(0, asBlock - 1);
    return {
      prompt: trace.header.prompt,
      K: guesses.length,
      temperature: String(trace.main.config?.temperature),
      weak: this.text(weak),
      weak_ratio: guesses[weak].ratio,
      weak_u: guesses[weak].u,
      weak_carried: guesses[weak].carried,
      weak_h: guesses[weak].h,
      weak_owed: owedAfter(guesses[weak]),
      next: this.text(after),
      next_ratio: guesses[after].ratio,
      next_carried: guesses[after].carried,
      end: this.text(end),
      end_h: guesses[end].h,
      end_u: guesses[end].u,
      end_carried: guesses[end].carried,
      token_kept: byToken,
      block_kept: asBlock,
      unread: guesses.length - byToken - 1,
      more: asBlock - byToken,
    };
  }

  draw() {
    const { place, scene } = this;
    if (!place) return;
    const { trace, round, guesses } = place;
    const before = trace.main.tokens
      .slice(Math.max(0, round.firstToken - CONTEXT), round.firstToken)
      .map(({ text }) => text)
      .join("");
    const draft = guesses.map((_, at) => this.text(at)).join("");
    this.context.replaceChildren(
      round.firstToken > CONTEXT ? "… " : "",
      before,
      element("mark", "", draft),
    );
    const isWalk = scene.show === "token" || scene.show === "block";
    this.next.hidden = !isWalk;
    this.next.disabled = this.walked === this.order.length;
    if (scene.show === "both")
      this.tables.replaceChildren(
        this.table("token", this.verdicts(false)),
        this.table("block", this.verdicts(true)),
      );
    else
      this.tables.replaceChildren(
        this.table(scene.show ?? "chain", isWalk ? this.verdicts(this.isBlock) : []),
      );
    setText(this.words, isWalk ? this.sentence() : "");
  }

  // Return the shown outcome of each guess, or "" for guesses whose verdict is not shown yet.
  /** @param {boolean} isBlock */
  verdicts(isBlock) {
    const { guesses } = /** @type {NonNullable<JudgedChain["place"]>} */ (this.place);
    const order = examined(guesses, isBlock);
    const shown = this.scene.show === "both" ? (this.isRevealed ? order.length : 0) : this.walked;
    const isOver = shown === order.length;
    const kept = isBlock ? keptAsBlock(guesses) : keptByToken(guesses);
    return guesses.map((_, at) => {
      const turn = order.indexOf(at);
      if (turn >= 0 && turn < shown) return at < kept ? "accepted" : "rejected";
      if (!isOver) return "";
      return at < kept ? "accepted" : "unreached";
    });
  }

  /**
   * @param {string} show
   * @param {string[]} verdicts
   */
  table(show, verdicts) {
    const { guesses } = /** @type {NonNullable<JudgedChain["place"]>} */ (this.place);
    const made = element("section", "chain-table");
    const isBoth = this.scene.show === "both";
    if (isBoth)
      made.append(
        element("h3", "sweep-title", show === "token" ? "Token by token" : "Block verification"),
      );
    const list = element("ol", "chain-rows");
    list.append(...guesses.map((guess, at) => this.row(guess, at, show, verdicts[at] ?? "")));
    made.append(list, element("p", "hint", /** @type {Record<string, string>} */ (LEGENDS)[show]));
    return made;
  }

  /**
   * @param {import("./chain_verdicts.js").ChainGuess} guess
   * @param {number} at
   * @param {string} show
   * @param {string} verdict
   */
  row(guess, at, show, verdict) {
    const row = element("li", verdict);
    const { p, q, ratio, accept, carried, h, u } = guess;
    const numbers =
      show === "block"
        ? `carried ${probability(carried)}, h ${probability(h)}`
        : `p ${probability(p)}, q ${probability(q)}, p/q ${ratio.toFixed(2)}`;
    const track = element("span", "chain-track");
    if (show === "chain")
      track.append(bar("chain-limit", ratio / this.largest), mark(1 / this.largest));
    else
      track.append(
        ...(show === "block" ? [bar("chain-carried", carried)] : []),
        bar("chain-limit", show === "block" ? h : accept),
        mark(u),
      );
    const name = element("span", "guess-name", tokenLabel(this.text(at)));
    const outcome = element("span", `chain-verdict ${verdict}`);
    if (verdict)
      outcome.append(
        element("i", "", lookOf(verdict).mark),
        ` ${verdict === "unreached" ? "not examined" : verdict}`,
      );
    row.append(
      name,
      track,
      outcome,
      element(
        "span",
        "hint chain-numbers",
        show === "chain" ? numbers : `${numbers}, u ${probability(u)}`,
      ),
    );
    return row;
  }

  // Return a sentence about the last shown verdict.
  sentence() {
    const { guesses } = /** @type {NonNullable<JudgedChain["place"]>} */ (this.place);
    const { order, walked, isBlock } = this;
    if (!walked) return "";
    const at = order[walked - 1];
    const { u, h, accept } = guesses[at];
    const [limit, name] = isBlock ? [h, "h"] : [accept, "min(1, p/q)"];
    const passes = u < limit;
    const told = `${tokenLabel(this.text(at))}: u = ${probability(u)} is ${passes ? "below" : "not below"} ${name} = ${probability(limit)}.`;
    if (isBlock && passes)
      return `${told} The draft is kept up to here: ${at + 1} of ${guesses.length} guesses.`;
    if (isBlock) return `${told} ${at ? "Look at the guess before it." : "Nothing is kept."}`;
    return `${told} ${passes ? "It is kept." : "It is rejected, and the draft is over."}`;
  }
}

/**
 * @param {string} className
 * @param {number} share
 */
function bar(className, share) {
  const made = element("i", className);
  made.style.width = `${100 * Math.min(1, share)}%`;
  return made;
}

/** @param {number} u */
function mark(u) {
  const made = element("i", "chain-draw");
  made.style.left = `${100 * u}%`;
  return made;
}
