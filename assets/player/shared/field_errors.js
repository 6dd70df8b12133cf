// Errors in words beside the fields that they are about: a line (.error) for one or more of them, whose
// field is marked until the errors are cleared.

import { setText } from "./dom.js";
import { labelled, settingNamed } from "./settings.js";

export class FieldErrors {
  // `root` holds the fields and their lines. A line names its settings in data-error="target draft"; the
  // last line is for whatever has none of its own. `fields`: the server's name of a setting -> its control,
  // where these are few and share a line; an edit of one clears it.
  constructor(root, fields = {}) {
    this.root = root;
    this.fields = fields;
    for (const field of Object.values(fields)) {
      field.setAttribute("aria-describedby", this.lastLine.id);
      field.addEventListener("input", () => this.clear());
    }
  }

  get lines() {
    return [...this.root.querySelectorAll(".error")];
  }

  get lastLine() {
    return this.lines.at(-1);
  }

  // Undefined where the setting has no line of its own.
  lineOf(name) {
    return this.lines.find(({ dataset }) => name !== "" && dataset.error?.split(" ").includes(name));
  }

  // A sentence of the server, which begins with the name of a setting: in sight, its control with the focus.
  report(sentence) {
    this.clear();
    const name = settingNamed(sentence);
    this.show(this.lineOf(name) ?? this.lastLine, labelled(sentence), this.fields[name]);
    this.lead(this.lineOf(name) ?? this.lastLine, this.fields[name]);
  }

  show(line, text, control) {
    setText(line, text);
    line.hidden = false;
    const details = line.closest("details");
    if (details) details.open = true;
    line.closest(".field")?.classList.add("is-wrong");
    if (control) markWrong(control, true);
  }

  // To where something is to be mended.
  lead(line, control) {
    control?.focus({ preventScroll: true });
    line.scrollIntoView({ block: "nearest" });
  }

  clear(kept = []) {
    for (const each of this.lines) if (!kept.includes(each)) each.hidden = true;
    for (const each of this.root.querySelectorAll(".is-wrong")) each.classList.remove("is-wrong");
    for (const each of this.root.querySelectorAll("[aria-invalid]")) markWrong(each, false);
  }
}

// As the style sheets and screen readers know a control that is wrong.
export function markWrong(control, isWrong) {
  if (isWrong) control.setAttribute("aria-invalid", "true");
  else control.removeAttribute("aria-invalid");
}
