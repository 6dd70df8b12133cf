// A comparison of the debugger's run with a second run: both texts, and the first token that
// differs.

import { setText } from "../shared/dom.js";
import { Ribbon } from "../shared/ribbon.js";
import { tokenLabel } from "../shared/token_label.js";

export class Comparison {
  /**
   * @param {Refs} refs
   * @param {{ onGo: (at: number) => void }} on
   */
  constructor(refs, { onGo }) {
    this.refs = refs;
    /** @type {Trace | null} */
    this.other = null;
    this.index = -1; // index of the first token that differs, -1 if none does
    this.text = new Ribbon(refs.otherText, { onSelect: () => {}, onHover: () => {} });
    refs.toDifference.addEventListener("click", () => this.index >= 0 && onGo(this.index));
    refs.toTexts.addEventListener("click", () => refs.textCard.scrollIntoView({ block: "center" }));
    this.clear();
  }

  clear() {
    this.other = null;
    this.index = -1;
    const { otherBox, ownTitle, differenceRow, forkOutcome } = this.refs;
    otherBox.hidden = ownTitle.hidden = differenceRow.hidden = forkOutcome.hidden = true;
  }

  // `title` names the second run.
  /**
   * @param {Trace} other
   * @param {string} title
   */
  show(other, title) {
    this.clear();
    this.other = other;
    this.text.start(other.header.prompt, Boolean(other.templatedPrompt));
    this.text.grow(other.main.tokens);
    setText(this.refs.otherTitle, `The other: ${title}`);
    this.refs.otherBox.hidden = this.refs.ownTitle.hidden = false;
  }

  // Find the first difference again, because a live run may have grown. `ribbon` shows the text of
  // the debugger's own run.
  /**
   * @param {Trace} trace
   * @param {Ribbon} ribbon
   */
  draw(trace, ribbon) {
    if (!this.other) return;
    const [own, theirs] = [trace.main.tokens, this.other.main.tokens];
    const shared = Math.min(own.length, theirs.length);
    let index = 0;
    while (index < shared && own[index].id === theirs[index].id) index += 1;
    const isSame = index === shared && (own.length === theirs.length || trace.isLive);
    if (index === this.index && !isSame) return;
    this.index = isSame ? -1 : index;
    this.refs.differenceRow.hidden = this.refs.forkOutcome.hidden = false;
    this.refs.toDifference.hidden = isSame;
    setText(this.refs.forkWord, outcomeWords(this.index, trace.isLive));
    if (isSame) return setText(this.refs.difference, outcomeWords(-1, trace.isLive));
    ribbon.differ(index);
    this.text.differ(index);
    this.text.mark(index, index, index + 1, Infinity);
    this.text.reveal();
    this.showDifference(own[index], theirs[index]);
  }

  // Show the server's sentence about the difference, which gives the cause. Until it arrives, the
  // page shows a sentence that the browser made from the two texts alone.
  /** @param {string} sentence */
  explain(sentence) {
    setText(this.refs.difference, sentence);
    this.refs.differenceRow.hidden = false;
  }

  // Show where the texts differ. The wording equals the first half of the server's sentence
  // (specviz/trace_diff/sentence.py), which then adds the cause.
  /**
   * @param {Token | undefined} own
   * @param {Token | undefined} theirs
   */
  showDifference(own, theirs) {
    const named = (/** @type {Token} */ token) => tokenLabel(token.text);
    if (own && theirs)
      return setText(
        this.refs.difference,
        `Token ${this.index + 1} is the first to differ: ${named(own)} in this run, ${named(theirs)} in the other.`,
      );
    const longer = own ?? theirs;
    const [ended, other] = own ? ["the other", "this run"] : ["this run", "the other"];
    const same = this.index === 1 ? "token is" : `${this.index} tokens are`;
    setText(
      this.refs.difference,
      `The first ${same} the same. Then ${ended} ends, and ${other} continues${longer ? ` with ${named(longer)}` : ""}.`,
    );
  }
}

// Return a short result of a comparison. `index` is the index of the first token that differs, -1
// if none does.
/**
 * @param {number} index
 * @param {boolean} [isLive]
 */
export function outcomeWords(index, isLive = false) {
  if (index < 0) return isLive ? "No difference so far." : "Both texts are the same.";
  return `The texts differ from token ${index + 1} on.`;
}
