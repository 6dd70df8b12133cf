// The lanes of a race side by side, in the order of the trace's header. A lane is one way of
// decoding the same prompt; its card shows its text, tokens per second and target forwards.

import { element, setText } from "../shared/dom.js";
import { engineWords } from "../shared/engine_words.js";
import { counted, rateText } from "../shared/number_words.js";
import { Ribbon } from "../shared/ribbon.js";

/** @type {Record<number, string>} */
const COUNTS = { 2: "two", 3: "three", 4: "four" };

// Explanations of the lanes' names.
/** @type {Record<string, string>} */
const WHO = {
  baseline: "the target alone",
  speculative: "guesses first, then checks",
  engine: "over the network",
};

const REPLAY = "replay";

// The card of one lane, a copy of a template in the page.
class Card {
  // `words` is the template of the text that the card shows before the first race. It may be
  // missing.
  /**
   * @param {HTMLTemplateElement} template
   * @param {{ name: string, kind: string }} lane
   * @param {HTMLTemplateElement | undefined} words
   * @param {{ onSelect: (at: number) => void, onHover: (at: number, span: HTMLElement | null) => void, onScroll: () => void }} on
   */
  constructor(template, { name, kind }, words, on) {
    this.name = name;
    this.kind = kind;
    this.differing = -1;
    this.article = /** @type {HTMLElement} */ (
      /** @type {Element} */ (template.content.firstElementChild).cloneNode(true)
    );
    this.article.dataset.lane = name;
    const part = (/** @type {string} */ selector) =>
      /** @type {HTMLElement} */ (this.article.querySelector(selector));
    this.meta = part(".meta");
    this.rate = part(".rate b");
    this.loss = part(".loss");
    const box = part(".ribbon");
    this.meta.dataset.ref = `${name}Meta`;
    this.rate.dataset.ref = `${name}Rate`;
    box.dataset.ref = `${name}Ribbon`;
    const isNamed = name !== kind; // a lane whose name equals its kind needs no second name
    const title = `${kind[0].toUpperCase()}${kind.slice(1)}${isNamed ? ` · ${name}` : ""}`;
    part("h2").replaceChildren(title, " ", element("span", "hint", WHO[kind] ?? ""));
    const label = words?.getAttribute("aria-label") ?? `Text of the ${kind}’s run`;
    box.setAttribute("aria-label", isNamed ? `${label} (${name})` : label);
    if (words) box.append(words.content.cloneNode(true));
    if (kind !== "speculative") this.loss.remove(); // only our own decoder has lossy rules, so other lanes need no badge
    this.facts = part(".engine-facts");
    if (kind !== "engine") this.facts.remove();
    this.ribbon = new Ribbon(box, { ...on, isRunning: true });
  }

  clear() {
    this.article.classList.remove("has-arrived");
    this.ribbon.clear();
    this.numbers("", 0);
    this.showLoss("");
    setText(this.facts, "");
    this.differing = -1;
  }

  /** @param {string} text */
  showLoss(text) {
    setText(this.loss, text);
    this.loss.hidden = !text;
  }

  // Show the state of the lane at `moment`, in seconds of the lane's own clock. Infinity shows the
  // whole lane.
  /**
   * @param {Lane} lane
   * @param {number} moment
   * @param {boolean} isOver true if the race has ended
   */
  draw(lane, moment, isOver) {
    const count = lane.tokensAt(moment);
    const seconds = Math.min(moment, lane.clock);
    if (lane.isEngine && !lane.tokens.length) return this.numbers("", 0);
    const isUnknown = lane.isEngine && !lane.forwards.length;
    const forwards = isUnknown ? "target forwards unknown" : forwardWords(lane.forwardsAt(moment));
    const words = [counted(count, "token"), forwards, `${seconds.toFixed(2)}\u00a0s`];
    const hasArrived = lane.hasEnded && moment >= lane.clock;
    this.article.classList.toggle("has-arrived", hasArrived);
    if (hasArrived) words.push("finished");
    else if (isOver && moment >= lane.clock) words.push("stopped");
    this.numbers(words.join(" · "), lane.rateAt(moment));
  }

  /**
   * @param {string} words
   * @param {number} rate
   */
  numbers(words, rate) {
    setText(this.meta, words);
    setText(this.rate, rateText(rate));
  }
}

// Name the forward of the prompt separately, because it gives the first token before any round or
// step.
/** @param {number} count */
export function forwardWords(count) {
  return count ? `prompt + ${counted(count - 1, "target forward")}` : "reading the prompt";
}

export class Lanes {
  // `lossOf(config)` says in words that the verification rule in the settings `config` is lossy. It
  // returns "" if the rule is lossless.
  /**
   * @param {Refs} refs
   * @param {Trace} trace
   * @param {{ onToken: (at: number) => void, tooltip: Tooltip, lossOf: (config: DecodingConfigRecord) => string }} on
   */
  constructor(refs, trace, { onToken, tooltip, lossOf }) {
    this.box = refs.lanes;
    this.template = refs.laneCard;
    this.trace = trace;
    this.onToken = onToken;
    this.tooltip = tooltip;
    this.lossOf = lossOf;
    const kinds = [...this.box.querySelectorAll("template[data-kind]")];
    this.words = Object.fromEntries(kinds.map((each) => [each.dataset.kind, each]));
    /** @type {Card[]} */
    this.cards = [];
    /** @type {Record<string, number[]>} server's lane -> tokens per second in each of several runs */
    this.rates = {};
    this.isLed = true; // false after the user has scrolled away from the current tokens
    this.led = ""; // key of the position that the texts last scrolled to
    this.lay(Object.keys(this.words).map((kind) => ({ name: kind, kind }))); // shown until the first race names its own lanes
  }

  // Make a card for each lane. Keep the present cards if they are for these lanes.
  /** @param {{ name: string, kind: string }[]} lanes */
  lay(lanes) {
    const { cards } = this;
    const isSame = (/** @type {{ name: string, kind: string }} */ lane, /** @type {number} */ at) =>
      lane.name === cards[at]?.name && lane.kind === cards[at].kind;
    if (lanes.length === cards.length && lanes.every(isSame)) return;
    for (const { article } of cards) article.remove();
    this.cards = lanes.map((lane, at) => {
      const onHover = (/** @type {number} */ token, /** @type {HTMLElement | null} */ span) =>
        this.hover(at, token, span);
      return new Card(this.template, lane, this.words[lane.kind], {
        onSelect: this.onToken,
        onHover,
        onScroll: () => this.scrolled(at),
      });
    });
    this.box.append(...this.cards.map(({ article }) => article));
    const count = lanes.length;
    this.box.setAttribute(
      "aria-label",
      count === 1 ? "The text" : `The ${COUNTS[count] ?? count} texts`,
    );
  }

  /** @param {string | string[]} prompt */
  showPrompt(prompt) {
    for (const { ribbon } of this.cards) ribbon.showPrompt(prompt);
  }

  // The text views, keyed by the name of the lane.
  get ribbons() {
    return Object.fromEntries(this.cards.map(({ name, ribbon }) => [name, ribbon]));
  }

  /**
   * @param {number} at
   * @param {number} index
   * @param {HTMLElement | null} span
   */
  hover(at, index, span) {
    const token = this.trace.lanes[at]?.tokens[index];
    if (token && span) this.tooltip.show(this.trace, token, span);
    else this.tooltip.hide();
  }

  // The user has scrolled the text of one lane. Scroll the other texts to the same height. If the
  // scrolled text is at its end and still grows, scroll every text to its own end.
  /** @param {number} at */
  scrolled(at) {
    const { box, isAtEnd } = this.cards[at].ribbon;
    const isNewest = this.trace.isLive && isAtEnd;
    for (const { ribbon } of this.cards) {
      if (ribbon.box !== box) ribbon.scrollTo(isNewest ? ribbon.box.scrollHeight : box.scrollTop);
    }
    const inSight = this.cards.filter(({ ribbon }) => ribbon.isGoalInSight).length;
    // Decide whether the texts still follow the selected position. In a replay the lanes have
    // reached different positions, so it is enough if the position of one lane is visible.
    this.isLed = inSight === this.cards.length || (inSight > 0 && this.led === REPLAY);
  }

  clear() {
    for (const card of this.cards) card.clear();
    this.rates = {};
    this.isLed = true;
  }

  start() {
    const { header, lanes } = this.trace;
    this.lay(lanes);
    this.clear();
    for (const [at, card] of this.cards.entries()) {
      card.ribbon.start(header.prompt, Boolean(this.trace.templatedPrompt));
      card.showLoss(this.lossOf(lanes[at].config));
    }
  }

  // Draw all lanes. `selected` is the index of the selected token, and `from` and `to` bound the
  // tokens of its round. `moment` is in seconds on each lane's own clock. Tokens that were written
  // after it are faint. If it is Infinity, no token is faint.
  /**
   * @param {{ selected: number, from: number, to: number }} place
   * @param {number} moment
   * @param {{ isFollowing: boolean, isPlaying: boolean }} how
   */
  draw({ selected, from, to }, moment, { isFollowing, isPlaying }) {
    const led = isPlaying ? REPLAY : `${selected} ${from}`;
    if (led !== this.led) this.isLed = true; // the position has changed, so the texts scroll to it again
    this.led = led;
    for (const [at, card] of this.cards.entries()) {
      const { ribbon } = card;
      const lane = this.trace.lanes[at];
      ribbon.grow(lane.tokens);
      const isOwn = lane === this.trace.main;
      // Mark the selected token in every lane only at temperature 0 and outside a replay. Above
      // temperature 0 the texts differ by chance, so the same index is not the same token. In a
      // replay the lanes have reached different indices.
      const marked = isOwn || (this.trace.isGreedy && !isPlaying) ? selected : -1;
      ribbon.mark(marked, isOwn ? from : 0, isOwn ? to : 0, lane.tokensAt(moment));
      if (!isFollowing && this.isLed) ribbon.reveal();
      card.draw(lane, moment, !this.trace.isLive);
      if (!lane.isEngine) continue;
      if (lane.forwards.length) ribbon.showOrigins(lane.tokens);
      setText(card.facts, engineWords(this.trace, lane, this.rates[lane.name]));
    }
    if (this.trace.isGreedy) this.markDifferences();
  }

  // Mark the first token at which a text differs from the baseline's text, in both texts.
  markDifferences() {
    const { baseline, lanes } = this.trace;
    for (const [at, card] of this.cards.entries()) {
      if (card.differing >= 0 || lanes[at] === baseline) continue;
      card.differing = this.trace.differenceOf(lanes[at]);
      if (card.differing < 0) continue;
      card.ribbon.differ(card.differing);
      this.cards[lanes.indexOf(baseline)].ribbon.differ(card.differing);
    }
  }
}
