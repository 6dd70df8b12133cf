// One lane's text as a row of tokens; each carries where it came from as colour and line. Only grows while
// a race runs. The text stands in blocks, parted where a line ends anyway: the browser lays out a growing
// text's last block alone.

import { element } from "./dom.js";
import { endsInBytes, isOpen, joined } from "./split_characters.js";
import { tokenText } from "./token_label.js";

const BLOCK = 200; // tokens, and then those up to the end of the line

export class Ribbon {
  // `isRunning`: a text that is read while it is written: its end stays in sight, and a character of several
  // tokens is that character.
  /**
   * @param {HTMLElement} box
   * @param {{ onSelect: (at: number) => void, onHover: (at: number, span: HTMLElement | null) => void, onScroll?: () => void, isRunning?: boolean }} on
   */
  constructor(box, { onSelect, onHover, onScroll, isRunning = false }) {
    this.box = box;
    this.isRunning = isRunning;
    /** @type {HTMLElement[]} */
    this.split = []; // the tokens of a character that is not whole yet
    this.ledTop = 0; // where the text was scrolled to, but for what its reader did
    this.empty = [...box.children];
    box.replaceChildren(...this.empty);
    /** @type {HTMLElement[]} */
    this.spans = [];
    /** @type {HTMLElement | null} */
    this.selected = null;
    /** @type {HTMLElement[]} */
    this.marked = [];
    this.later = 0; // tokens from here on lie behind the moment shown
    this.block = element("div"); // the last one
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
    box.addEventListener("mouseover", (event) => tokenOf(event) !== this.pointed && point(null)); // the text moved, not the pointer
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

  // A question stands on lines of its own; any other prompt is gone on with.
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
    this.scrollTo(this.isRunning ? this.box.scrollHeight : 0); // where new tokens come, or the prompt
  }

  // The prompt in another form: as text, or as tokens, whose control tokens stand out.
  /** @param {string | string[]} prompt */
  showPrompt(prompt) {
    const parts = typeof prompt === "string" ? visible(prompt) : prompt.flatMap(promptToken);
    this.box.querySelector(".prompt")?.replaceChildren(...parts);
  }

  // Add what is new of `tokens`; one that is read while it runs stays at its end if the reader is there.
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

  // Of tokens that stand there, where it was told only behind the last one.
  /** @param {Token[]} tokens */
  showOrigins(tokens) {
    for (const [at, span] of this.spans.entries()) span.classList.replace("unknown", tokens[at].origin);
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
    const isOver = this.block.childElementCount > BLOCK && this.spans.at(-1)?.textContent?.endsWith("\n");
    if (isOver) this.box.append(this.startBlock());
    this.block.append(span);
    this.spans.push(span);
    if (this.isRunning) this.join(span);
  }

  // With its last token a character that several tokens share stands there.
  /** @param {HTMLElement} span */
  join(span) {
    if (!this.split.length && !endsInBytes(span.textContent ?? "")) return;
    this.split.push(span);
    const texts = this.split.map((each) => each.textContent ?? "");
    const whole = joined(texts);
    if (whole) for (const [at, each] of this.split.entries()) each.replaceChildren(...visible(whole[at]));
    if (whole || !isOpen(texts)) this.split = [];
  }

  startBlock() {
    return (this.block = element("div"));
  }

  // Highlight a token and its round [from, to); fade what lies behind the moment shown.
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
    for (const span of this.spans.slice(from, to)) span.classList.toggle("is-later", shown < this.later);
    this.later = shown;
  }

  // The selected token; without one, what the text ends with at the moment shown.
  get goal() {
    return this.selected ?? this.spans[Math.max(0, this.later - 1)];
  }

  get isGoalInSight() {
    const { goal, box } = this;
    return !goal || (goal.offsetTop >= box.scrollTop && goal.offsetTop + goal.offsetHeight <= box.scrollTop + box.clientHeight);
  }

  // By whole lines, so that none is cut.
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

const CONTROL = /^(<.+>|\[.+\])$/; // as tokenizers name them

/** @param {string} text */
function promptToken(text) {
  return CONTROL.test(text) ? [element("span", "control", text)] : visible(text);
}

// Text nodes, with an empty mark before each line break: the mark is drawn by CSS alone, so the
// text stays the model's own.
/** @param {string} text */
function visible(text) {
  return text
    .split("\n")
    .flatMap((line, index) => (index ? [element("i", "break"), `\n${line}`] : [line]));
}
