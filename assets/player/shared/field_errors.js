// Errors in words beside the fields that they are about: a line (.error) for one or more of them, whose
// field is marked until the errors are cleared.

import { setText } from "./dom.js";
import { labelled, settingNamed } from "./settings.js";

export class FieldErrors {
  // `root` holds the fields and their lines. A line names its settings in data-error="target draft"; the
  // last line is for whatever has none of its own. `fields`: the server's name of a setting -> its control,
  // where these are few and share a line. `checked()`: the fields with a rule that the browser knows:
  // { name, control, problem(text) } and, where the table of settings has none, a title.
  /**
   * @param {HTMLElement} root
   * @param {Record<string, any>} [fields]
   * @param {() => CheckedField[]} [checked]
   */
  constructor(root, fields = {}, checked = () => []) {
    this.root = root;
    this.fields = fields;
    this.checked = checked;
    for (const field of Object.values(fields)) {
      field.setAttribute("aria-describedby", this.lastLine.id);
      field.addEventListener("input", () => this.recheck());
    }
  }

  get lines() {
    return [.../** @type {NodeListOf<HTMLElement>} */ (this.root.querySelectorAll(".error"))];
  }

  get lastLine() {
    return /** @type {HTMLElement} */ (this.lines.at(-1)); // every form has one
  }

  // Undefined where the setting has no line of its own.
  /** @param {string} name */
  lineOf(name) {
    return this.lines.find(({ dataset }) => name !== "" && dataset.error?.split(" ").includes(name));
  }

  // The fields whose texts break a rule.
  get wrong() {
    return this.checked()
      .map((each) => ({ ...each, problem: each.problem(each.control.value) }))
      .filter(({ problem }) => problem);
  }

  // What stood here goes; what the fields themselves know of stays.
  /** @param {HTMLElement[]} [kept] */
  recheck(kept = []) {
    this.clear(kept);
    for (const { name, title, control, problem, options } of this.wrong.reverse()) {
      const sentence = title ? `${title} ${problem}` : labelled(`${name} ${problem}`, options);
      this.show(this.lineOf(name) ?? this.lastLine, sentence, control);
    }
  }

  // Whether it is plain that the server would say no; then the first such field has the focus.
  refuses() {
    this.recheck();
    const [first] = this.wrong;
    if (first) this.lead(this.lineOf(first.name) ?? this.lastLine, first.control);
    return Boolean(first);
  }

  // A sentence of the server, which begins with the name of a setting: in sight, its control with the focus.
  /** @param {string} sentence */
  report(sentence) {
    this.clear();
    const name = settingNamed(sentence);
    this.show(this.lineOf(name) ?? this.lastLine, labelled(sentence), this.fields[name]);
    this.lead(this.lineOf(name) ?? this.lastLine, this.fields[name]);
  }

  /**
   * @param {HTMLElement} line
   * @param {string} text
   * @param {any} control
   */
  show(line, text, control) {
    setText(line, text);
    line.hidden = false;
    const details = line.closest("details");
    if (details) details.open = true;
    line.closest(".field")?.classList.add("is-wrong");
    if (control) markWrong(control, true);
  }

  // To where something is to be mended.
  /**
   * @param {HTMLElement} line
   * @param {any} control
   */
  lead(line, control) {
    control?.focus({ preventScroll: true });
    line.scrollIntoView({ block: "nearest" });
  }

  /** @param {HTMLElement[]} [kept] */
  clear(kept = []) {
    for (const each of this.lines) if (!kept.includes(each)) each.hidden = true;
    for (const each of this.root.querySelectorAll(".is-wrong")) each.classList.remove("is-wrong");
    for (const each of this.root.querySelectorAll("[aria-invalid]")) markWrong(each, false);
  }
}

// As the style sheets and screen readers know a control that is wrong.
/**
 * @param {Element} control
 * @param {boolean} isWrong
 */
export function markWrong(control, isWrong) {
  if (isWrong) control.setAttribute("aria-invalid", "true");
  else control.removeAttribute("aria-invalid");
}
