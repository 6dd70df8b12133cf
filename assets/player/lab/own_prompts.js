// The user's own prompts: the typed text or the content of a file, and the number of prompts in it.
// The server splits the text into prompts.

import { setText, takeFile } from "../shared/dom.js";

export const OWN = "own"; // value of the task menu for the user's own prompts
const REST_MILLISECONDS = 300; // pause after the last key before the server is asked
const RULE =
  "One a line; or blocks with an empty line between; or JSON lines with the text under “prompt”, or turns under “messages”.";

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

  // The prompts as they are sent to the server: their text, and the name of the file they come
  // from. The name shows the format of the file; it is forgotten once the user edits the text.
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
    this.showFound(
      reply?.error
        ? reply.error
        : this.count === null
          ? ""
          : `${this.count} ${this.count === 1 ? "prompt" : "prompts"}${of}`,
    );
    this.onChange();
  }

  /** @param {string} found */
  showFound(found) {
    setText(this.refs.ownCount, found ? `${found}. ${RULE}` : RULE);
  }
}
