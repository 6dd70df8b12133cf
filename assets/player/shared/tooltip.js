// A small card about the token under the pointer: its text, origin, p, q, u and round.

import { element } from "./dom.js";
import { lookOf } from "./outcomes.js";
import { compared, drawn, percent } from "./number_words.js";
import { tokenLabel } from "./token_label.js";

// Names of the origins of tokens that come from no round.
/** @type {Record<string, string>} */
const ORIGINS = {
  first: "first token, from the prompt’s forward",
  unknown: "the engine does not tell where it came from",
};

export class Tooltip {
  /** @param {HTMLElement} card */
  constructor(card) {
    this.card = card;
  }

  hide() {
    this.card.hidden = true;
  }

  /**
   * @param {Trace} trace
   * @param {Token} token
   * @param {HTMLElement} anchor
   */
  show(trace, token, anchor) {
    this.card.replaceChildren(element("b", "", tokenLabel(token.text)), ...lines(trace, token));
    this.card.hidden = false;
    const box = anchor.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.card;
    const left = Math.max(8, Math.min(box.left, window.innerWidth - width - 8));
    const isBelow = box.bottom + height + 12 < window.innerHeight;
    this.card.style.left = `${left}px`;
    this.card.style.top = `${isBelow ? box.bottom + 8 : Math.max(8, box.top - height - 8)}px`;
  }
}

/**
 * @param {Trace} trace
 * @param {Token} token
 */
function lines(trace, token) {
  const rows = [ORIGINS[token.origin] ?? lookOf(token.origin).origin];
  const round = trace.rounds[token.round];
  if (token.record) rows.push(`p ${percent(token.record.prob)}`);
  if (round && token.node >= 0) rows.push(verdictLine(round, token.node));
  if (round?.isTypical && token.origin === "recovered")
    rows[0] = "drawn from the target after a rejection";
  if (round && token.node < 0)
    rows.push(`probability ${round.extra?.prob == null ? "unknown" : percent(round.extra.prob)}`);
  const place = token.round >= 0 ? `round ${token.round + 1}, ` : "";
  rows.push(`${place}${token.clock.toFixed(2)} s`);
  return rows.map((row) => element("p", "", row));
}

/**
 * @param {Round} round
 * @param {number} node
 */
function verdictLine(round, node) {
  const { p, u, raw_p, accept } = round.verdict(node);
  const q = round.shownQ(node);
  const [target, draft] = compared(round.isGreedy ? raw_p : p, q);
  const drafted = q === null ? "a point mass" : `q ${draft}`;
  const draw = round.isTypical ? "no draw" : u === null ? "u unseen" : `u ${drawn(accept, u)[1]}`;
  return `p ${target} · ${drafted} · ${draw}`;
}
