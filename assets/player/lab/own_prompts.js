// Prompts of one's own: typed, or read from a file, and how many they are.
// Knows the text and where it came from; how it is parted the server says.

import { setText, takeFile } from "../shared/dom.js";

export const OWN = "own"; // in the place of a task: prompts of one's own
const REST_MILLISECONDS = 300; // after the last key
const RULE = "One a line; or blocks with an empty line between; or JSON lines with the text under “prompt”, or turns under “messages”.";

export class OwnPrompts {
  /**
   * @param {Refs} refs
   * @param {(name: string, question: object) => Promise<Reply>} ask
   * @param {() => void} onChange
   */
  constructor(refs, ask, onChange) {
    this.refs = refs;
    this.ask = ask;
    this.onChange = onChange;
    this.name = "";
    this.count = null;
    refs.ownText.addEventListener("input", () => this.edited());
    refs.ownFileOpen.addEventListener("click", () => refs.ownFile.click());
    refs.ownFile.addEventListener("change", () => this.read());
    this.showFound("");
  }

  get text() {
    return this.refs.ownText.value;
  }

  // A file's name tells how it is written; what is edited is the file's no longer.
  get order() {
    return { text: this.text, name: this.name };
  }

  /** @param {{ text: string, name: string }} given */
  take({ text, name }) {
    this.refs.ownText.value = text;
    this.name = name;
    this.tally();
  }

  async read() {
    const file = takeFile(this.refs.ownFile);
    if (!file) return;
    this.take({ text: await file.text(), name: file.name });
    this.onChange();
  }

  edited() {
    this.name = "";
    this.count = null;
    window.clearTimeout(this.waiting);
    this.waiting = window.setTimeout(() => this.tally(), REST_MILLISECONDS);
  }

  async tally() {
    const { text } = this;
    if (!text.trim()) return this.showFound("");
    const reply = await this.ask("prompts", this.order);
    if (text !== this.text) return;
    this.count = reply?.count ?? null;
    const of = this.name ? ` in ${this.name}` : "";
    this.showFound(reply?.error ? reply.error : this.count === null ? "" : `${this.count} ${this.count === 1 ? "prompt" : "prompts"}${of}`);
    this.onChange();
  }

  /** @param {string} found */
  showFound(found) {
    setText(this.refs.ownCount, found ? `${found}. ${RULE}` : RULE);
  }
}
