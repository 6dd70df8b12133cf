// The card that shows the sixty-line program next to the moment that the debugger shows. The card
// is updated only while it is open.

import { codeMoment, whyNotTheseLines } from "../shared/code_moments.js";
import { CodeView } from "../shared/code_view.js";
import { setText } from "../shared/dom.js";

export class CodeCard {
  /**
   * @param {Refs} refs
   * @param {ShownCode} code
   * @param {() => void} onOpen
   */
  constructor({ codeCard, codeWords, stepCode }, code, onOpen) {
    this.card = codeCard;
    this.words = codeWords;
    this.box = stepCode;
    this.view = new CodeView(stepCode, code);
    codeCard.addEventListener("toggle", onOpen);
  }

  /**
   * @param {Trace} trace
   * @param {Round} round
   * @param {Moment} moment
   */
  draw(trace, round, moment) {
    if (!this.card.open) return;
    const words = whyNotTheseLines(round);
    this.words.hidden = !words;
    setText(this.words, words);
    this.view.show(words ? null : codeMoment(trace, round, moment));
  }
}
