// One lane's text as a row of tokens; each carries where it came from as colour and line. Only grows while
// a race runs. The text stands in blocks, parted where a line ends anyway: the browser lays out a growing
// text's last block alone.

import { element } from "./dom.js";
import { tokenText } from "./token_label.js";

const BLOCK = 200; // tokens, and then those up to the end of the line

export class Ribbon {
  /**
   * @param {HTMLElement} box
   * @param {{ onSelect: (at: number) => void, onHover: (at: number, span: HTMLElement | null) => void }} on
   */
  constructor(box, { onSelect, onHover }) {
    this.box = box;
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
    box.addEventListener("mouseover", (event) => {
      const span = tokenOf(event);
      onHover(span ? this.spans.indexOf(span) : -1, span);
    });
    box.addEventListener("mouseleave", () => onHover(-1, null));
  }

  clear() {
    this.box.replaceChildren(...this.empty);
    this.spans = [];
    this.marked = [];
    this.selected = null;
    this.later = 0;
  }

  /** @param {string} prompt */
  start(prompt) {
    this.clear();
    const span = element("span", "prompt");
    span.append(...visible(prompt));
    this.startBlock();
    this.block.append(span);
    this.box.replaceChildren(this.block);
    this.box.scrollTop = this.box.scrollHeight; // the new tokens come at the end
  }

  // The prompt in another form: as text, or as tokens, whose control tokens stand out.
  /** @param {string | string[]} prompt */
  showPrompt(prompt) {
    const parts = typeof prompt === "string" ? visible(prompt) : prompt.flatMap(promptToken);
    this.box.querySelector(".prompt")?.replaceChildren(...parts);
  }

  // Add what is new of `tokens`; stay at the end of the text if the reader is there.
  /** @param {Token[]} tokens */
  grow(tokens) {
    if (tokens.length === this.spans.length) return;
    const isAtEnd = this.box.scrollHeight - this.box.scrollTop - this.box.clientHeight < 40;
    const fresh = tokens.slice(this.spans.length).map((token) => tokenSpan(token));
    if (this.later === this.spans.length) this.later += fresh.length;
    else for (const span of fresh) span.classList.add("is-later");
    for (const span of fresh) this.append(span);
    if (isAtEnd) this.box.scrollTop = this.box.scrollHeight;
  }

  /** @param {HTMLElement} span */
  append(span) {
    const isOver = this.block.childElementCount > BLOCK && this.spans.at(-1)?.textContent?.endsWith("\n");
    if (isOver) this.box.append(this.startBlock());
    this.block.append(span);
    this.spans.push(span);
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

  // The selected token in sight; without one, what the text ends with at the moment shown.
  reveal() {
    const goal = this.selected ?? this.spans[Math.max(0, this.later - 1)];
    if (!goal) return;
    const { offsetTop: top, offsetHeight } = goal;
    const { scrollTop, clientHeight } = this.box;
    if (top < scrollTop || top + offsetHeight > scrollTop + clientHeight) {
      this.box.scrollTop = top - clientHeight / 2;
    }
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
