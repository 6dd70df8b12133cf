// The text of one lane as a row of tokens, whose colour and underline show their origin. While a
// race runs, the text only grows. It consists of blocks that end at a line break, so that the
// browser lays out only the last block when the text grows.

import { element } from "./dom.js";
import { endsInBytes, isOpen, joined } from "./split_characters.js";
import { tokenText } from "./token_label.js";

const BLOCK = 200; // tokens per block; the block then continues to the next line break

export class Ribbon {
  // `isRunning` is true if users read this text while a run writes it. The end of the text then
  // stays visible, and a character that consists of several tokens is shown as one character.
  /**
   * @param {HTMLElement} box
   * @param {{ onSelect: (at: number) => void, onHover: (at: number, span: HTMLElement | null) => void, onScroll?: () => void, isRunning?: boolean }} on
   */
  constructor(box, { onSelect, onHover, onScroll, isRunning = false }) {
    this.box = box;
    this.isRunning = isRunning;
    /** @type {HTMLElement[]} */
    this.split = []; // the tokens of a character that is not complete yet
    this.ledTop = 0; // the last scroll position that the page set itself
    this.empty = [...box.children];
    box.replaceChildren(...this.empty);
    /** @type {HTMLElement[]} */
    this.spans = [];
    /** @type {HTMLElement | null} */
    this.selected = null;
    /** @type {HTMLElement[]} */
    this.marked = [];
    this.later = 0; // index of the first token after the shown moment
    this.block = element("div"); // the last block of the text, to which new tokens are added
    const tokenOf = (/** @type {any} */ event) => event.target.closest?.(".token");
    box.addEventListener("click", (event) => {
      const span = tokenOf(event);
      if (span) onSelect(this.spans.indexOf(span));
    });
    /** @type {HTMLElement | null} */
    this.pointed = null;
    const point = (/** @type {HTMLElement | null} */ span) => {
      if (span === this.pointed) return;
      this.pointed = span;
      onHover(span ? this.spans.indexOf(span) : -1, span);
    };
    box.addEventListener("mousemove", (event) => point(tokenOf(event) ?? null));
    // If the text scrolls below a pointer that stands still, the token under the pointer changes.
    // The earlier token is then no longer the one that the user points at.
    box.addEventListener("mouseover", (event) => tokenOf(event) !== this.pointed && point(null));
    box.addEventListener("mouseleave", () => point(null));
    box.addEventListener("scroll", () => {
      if (Math.abs(box.scrollTop - this.ledTop) <= 1) return;
      this.ledTop = box.scrollTop;
      onScroll?.();
    });
  }

  clear() {
    this.box.replaceChildren(...this.empty);
    this.spans = [];
    this.split = [];
    this.marked = [];
    this.selected = null;
    this.later = 0;
  }

  // Start the text with its prompt. A question is on lines of its own; the text continues any other
  // prompt directly.
  /**
   * @param {string} prompt
   * @param {boolean} isQuestion
   */
  start(prompt, isQuestion) {
    this.clear();
    const span = element("span", isQuestion ? "prompt is-question" : "prompt");
    span.append(...visible(prompt));
    this.startBlock();
    this.block.append(span);
    this.box.replaceChildren(this.block);
    this.scrollTo(this.isRunning ? this.box.scrollHeight : 0); // show the newest tokens, or the prompt
  }

  // Show the prompt in another form: as text, or as tokens with marked control tokens.
  /** @param {string | string[]} prompt */
  showPrompt(prompt) {
    const parts = typeof prompt === "string" ? visible(prompt) : prompt.flatMap(promptToken);
    this.box.querySelector(".prompt")?.replaceChildren(...parts);
  }

  // Add the tokens that are not shown yet. A growing text scrolls with its end if the user is at
  // the end.
  /** @param {Token[]} tokens */
  grow(tokens) {
    if (tokens.length === this.spans.length) return;
    const isFollowed = this.isRunning && this.isAtEnd;
    const fresh = tokens.slice(this.spans.length).map((token) => tokenSpan(token));
    if (this.later === this.spans.length) this.later += fresh.length;
    else for (const span of fresh) span.classList.add("is-later");
    for (const span of fresh) this.append(span);
    if (isFollowed) this.scrollTo(this.box.scrollHeight);
  }

  // Show the origins of tokens that were unknown at first, because some engines report them only at
  // the end.
  /** @param {Token[]} tokens */
  showOrigins(tokens) {
    for (const [at, span] of this.spans.entries())
      span.classList.replace("unknown", tokens[at].origin);
  }

  get isAtEnd() {
    const { scrollHeight, scrollTop, clientHeight } = this.box;
    return scrollHeight - scrollTop - clientHeight < 40;
  }

  /** @param {number} top */
  scrollTo(top) {
    this.box.scrollTop = top;
    this.ledTop = this.box.scrollTop;
  }

  /** @param {HTMLElement} span */
  append(span) {
    const isOver =
      this.block.childElementCount > BLOCK && this.spans.at(-1)?.textContent?.endsWith("\n");
    if (isOver) this.box.append(this.startBlock());
    this.block.append(span);
    this.spans.push(span);
    if (this.isRunning) this.join(span);
  }

  // Show a character as soon as the last token of its bytes has arrived.
  /** @param {HTMLElement} span */
  join(span) {
    if (!this.split.length && !endsInBytes(span.textContent ?? "")) return;
    this.split.push(span);
    const texts = this.split.map((each) => each.textContent ?? "");
    const whole = joined(texts);
    if (whole)
      for (const [at, each] of this.split.entries()) each.replaceChildren(...visible(whole[at]));
    if (whole || !isOpen(texts)) this.split = [];
  }

  startBlock() {
    return (this.block = element("div"));
  }

  // Highlight the selected token and the tokens [from, to) of its round. Tokens from `shown` on are
  // faint.
  /**
   * @param {number} selected
   * @param {number} from
   * @param {number} to
   * @param {number} shown
   */
  mark(selected, from, to, shown) {
    for (const span of this.marked) span.classList.remove("is-round");
    this.marked = this.spans.slice(from, to);
    for (const span of this.marked) span.classList.add("is-round");
    const next = this.spans[selected] ?? null;
    if (next !== this.selected) {
      this.selected?.classList.remove("is-selected");
      next?.classList.add("is-selected");
      this.selected = next;
    }
    this.fade(Math.min(shown, this.spans.length));
  }

  /** @param {number} shown */
  fade(shown) {
    const [from, to] = shown < this.later ? [shown, this.later] : [this.later, shown];
    for (const span of this.spans.slice(from, to))
      span.classList.toggle("is-later", shown < this.later);
    this.later = shown;
  }

  // The element to which the text scrolls: the selected token, or the last token at the shown
  // moment if none is selected.
  get goal() {
    return this.selected ?? this.spans[Math.max(0, this.later - 1)];
  }

  get isGoalInSight() {
    const { goal, box } = this;
    return (
      !goal ||
      (goal.offsetTop >= box.scrollTop &&
        goal.offsetTop + goal.offsetHeight <= box.scrollTop + box.clientHeight)
    );
  }

  // Scroll so that the token is visible. Scroll by whole lines, so that no line is cut.
  reveal() {
    if (this.isGoalInSight) return;
    const { lineHeight } = this;
    const above = Math.floor(this.box.clientHeight / lineHeight / 2);
    this.scrollTo((Math.floor(this.goal.offsetTop / lineHeight) - above) * lineHeight);
  }

  get lineHeight() {
    return Number.parseFloat(getComputedStyle(this.box).lineHeight);
  }

  /** @param {number} index */
  differ(index) {
    this.spans[index]?.classList.add("differs");
  }
}

/** @param {{ text: string, origin: string }} token */
function tokenSpan({ text, origin }) {
  const span = element("span", `token ${origin}`);
  span.append(...visible(tokenText(text)));
  return span;
}

const CONTROL = /^(<.+>|\[.+\])$/; // the usual forms of control tokens

/** @param {string} text */
function promptToken(text) {
  return CONTROL.test(text) ? [element("span", "control", text)] : visible(text);
}

// Return text nodes, with an empty element before each line break. Only CSS draws a mark there, so
// that a copied text is exactly the model's text.
/** @param {string} text */
function visible(text) {
  return text
    .split("\n")
    .flatMap((line, index) => (index ? [element("i", "break"), `\n${line}`] : [line]));
}
