// The choice of task and prompt: a held-out prompt, an edited one, or free text without a task. It
// is independent of the rest of the form.

import { element, setText } from "../shared/dom.js";

const FREE = ""; // task name of free text

export class PromptPicker {
  // `tasks` lists all tasks. `prompts` maps each task that the models support to its held-out
  // prompts.
  /**
   * @param {Refs} refs
   * @param {Choice[]} tasks
   * @param {Record<string, string[]>} prompts
   * @param {() => void} onChange
   */
  constructor(refs, tasks, prompts, onChange) {
    this.refs = refs;
    this.prompts = prompts;
    this.onChange = onChange;
    this.task = Object.keys(prompts)[0];
    this.place = 0;
    this.buttons = [...tasks, { name: FREE, title: "free" }].map((task) => this.button(task));
    refs.tasks.append(...this.buttons);
    refs.tasks.addEventListener("keydown", (/** @type {any} */ event) => this.walk(event));
    refs.nextPrompt.addEventListener("click", () => this.show(this.task, this.place + 1, true));
    refs.anyPrompt.addEventListener("click", () => this.showAny());
    refs.prompt.addEventListener("input", () => this.edited());
    refs.askElse.addEventListener("click", (/** @type {MouseEvent} */ event) => {
      event.preventDefault();
      this.askElse();
    });
    this.offer();
    this.show(this.task, 0);
  }

  // Replace the held-out prompts after another pair of models was chosen. A prompt that the user
  // edited stays.
  /** @param {Record<string, string[]>} prompts */
  use(prompts) {
    if (prompts === this.prompts) return;
    const { isHeldOut } = this;
    this.prompts = prompts;
    this.offer();
    const isThere = this.task in prompts;
    if (isHeldOut) this.show(isThere ? this.task : Object.keys(prompts)[0], this.place);
    else this.task = isThere ? this.task : FREE;
    this.paint();
  }

  offer() {
    const offered = [FREE, ...Object.keys(this.prompts)];
    for (const button of this.buttons)
      button.hidden = !offered.includes(button.dataset.task ?? FREE);
  }

  /** @param {Choice} task */
  button({ name, title }) {
    const made = element("button", "", title);
    made.type = "button";
    made.dataset.task = name;
    made.setAttribute("role", "radio");
    made.addEventListener("click", () => this.choose(name));
    return made;
  }

  get text() {
    return this.refs.prompt.value;
  }

  get isHeldOut() {
    return this.task !== FREE && this.text === this.prompts[this.task]?.[this.place];
  }

  /** @param {string} task */
  choose(task) {
    this.show(task, 0, true);
    if (task === FREE) this.refs.prompt.focus();
  }

  // Let the user type a prompt of their own. A text that the user has already typed stays.
  askElse() {
    if (this.isHeldOut) this.choose(FREE);
    else this.refs.prompt.focus();
  }

  // Choose the held-out prompt with this index. After the last prompt the first one follows, and
  // before the first one the last.
  /**
   * @param {string} task
   * @param {number} place
   */
  show(task, place, isNews = false) {
    this.task = task;
    const known = this.prompts[task] ?? [];
    this.place = known.length ? ((place % known.length) + known.length) % known.length : 0;
    this.refs.prompt.value = known[this.place] ?? "";
    this.paint();
    if (isNews) this.onChange();
  }

  /**
   * @param {string} task
   * @param {string} text
   */
  showText(task, text) {
    this.show(task, 0);
    this.refs.prompt.value = text;
    this.paint();
  }

  showAny() {
    const count = (this.prompts[this.task] ?? []).length;
    if (count > 1)
      this.show(this.task, this.place + 1 + Math.floor(Math.random() * (count - 1)), true);
  }

  edited() {
    this.paint();
    this.onChange();
  }

  /** @param {KeyboardEvent} event */
  walk(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const offered = this.buttons.filter(({ hidden }) => !hidden);
    const at = offered.findIndex((each) => each.dataset.task === this.task);
    const next = offered[(at + step + offered.length) % offered.length];
    this.show(next.dataset.task ?? FREE, 0, true);
    next.focus();
  }

  paint() {
    for (const button of this.buttons) {
      const isChosen = button.dataset.task === this.task;
      button.setAttribute("aria-checked", String(isChosen));
      button.tabIndex = isChosen ? 0 : -1;
    }
    const isFree = this.task === FREE;
    this.refs.nextPrompt.hidden = this.refs.anyPrompt.hidden = isFree;
    this.refs.prompt.placeholder = isFree
      ? "Type a message to a chat model, or a beginning for other models to continue."
      : "";
    const count = (this.prompts[this.task] ?? []).length;
    setText(this.refs.asked, this.text.trim() || "Ask something …");
    setText(
      this.refs.promptPlace,
      isFree ? "" : this.isHeldOut ? `${this.place + 1} of ${count}` : "edited",
    );
  }
}
