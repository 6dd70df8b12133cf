// Error messages next to the fields of a form. One line (class "error") serves one or more fields.
// A field with a wrong value is marked until its error is cleared.

import { setText } from "./dom.js";
import { labelled, settingNamed } from "./settings.js";

export class FieldErrors {
  // `root` contains the fields and the error lines. An error line lists its settings in an
  // attribute such as data-error="target draft". The last line shows the errors of all other
  // settings. `fields` maps the server's name of a setting to its control; it is needed only for
  // fields that share an error line. `checked()` returns the fields that the browser can check, as
  // { name, control, problem(text) }. A field that is not in the table of settings also has a
  // `title`.
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
    return /** @type {HTMLElement} */ (this.lines.at(-1)); // every form has at least one line
  }

  // Return the error line of a setting, or undefined if it has no line of its own.
  /** @param {string} name */
  lineOf(name) {
    return this.lines.find(
      ({ dataset }) => name !== "" && dataset.error?.split(" ").includes(name),
    );
  }

  // The fields with an invalid value, and the problem of each.
  get wrong() {
    return this.checked()
      .map((each) => ({ ...each, problem: each.problem(each.control.value) }))
      .filter(({ problem }) => problem);
  }

  // Clear the old errors except those of the controls in `kept`, and show the errors that the
  // browser itself can find.
  /** @param {HTMLElement[]} [kept] */
  recheck(kept = []) {
    this.clear(kept);
    for (const { name, title, control, problem, options } of this.wrong.reverse()) {
      const sentence = title ? `${title} ${problem}` : labelled(`${name} ${problem}`, options);
      this.show(this.lineOf(name) ?? this.lastLine, sentence, control);
    }
  }

  // Return whether the server would certainly refuse the form. If so, scroll to the first wrong
  // field and focus it.
  refuses() {
    this.recheck();
    const [first] = this.wrong;
    if (first) this.lead(this.lineOf(first.name) ?? this.lastLine, first.control);
    return Boolean(first);
  }

  // Show an error sentence of the server, which begins with the name of a setting. Scroll to it and
  // focus the control of that setting.
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

  // Scroll to an error line and focus the control that must be corrected.
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

// Mark a control as wrong, for the style sheets and for screen readers.
/**
 * @param {Element} control
 * @param {boolean} isWrong
 */
export function markWrong(control, isWrong) {
  if (isWrong) control.setAttribute("aria-invalid", "true");
  else control.removeAttribute("aria-invalid");
}
