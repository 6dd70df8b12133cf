// The line under each field that holds what it may not.
// Knows fields as {name, control, breach(text)} and their places for errors; no rule of its own.

import { setText } from "../shared/dom.js";

export class FieldChecks {
  // `fields()` lists those that have a rule at present.
  constructor(form, fields) {
    this.form = form;
    this.fields = fields;
  }

  get wrong() {
    const said = this.fields().map(({ name, control, breach }) => ({ name, control, sentence: breach(control.value) }));
    return said.filter(({ sentence }) => sentence);
  }

  slotOf(name) {
    const slots = [...this.form.querySelectorAll("[data-error]")];
    return slots.find((each) => each.dataset.error.split(" ").includes(name));
  }

  // `inWords` turns a sentence that begins with a field's name into one for people.
  showAll(inWords) {
    for (const { name, control, sentence } of this.wrong) this.show(this.slotOf(name), inWords(`${name} ${sentence}`), control);
  }

  show(slot, text, control = slot.closest(".field")?.querySelector("textarea, select, input[type=text]")) {
    setText(slot, text);
    slot.hidden = false;
    const details = slot.closest("details");
    if (details) details.open = true;
    slot.closest(".field")?.classList.add("is-wrong");
    control?.setAttribute("aria-invalid", "true");
  }

  clear(kept = []) {
    for (const each of this.form.querySelectorAll(".error")) if (!kept.includes(each)) each.hidden = true;
    for (const each of this.form.querySelectorAll(".is-wrong")) each.classList.remove("is-wrong");
    for (const each of this.form.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
  }

  // Go to the first field that is wrong; whether there is one.
  focusFirst() {
    const [first] = this.wrong;
    first?.control.focus();
    first?.control.closest(".field")?.scrollIntoView({ block: "nearest" });
    return Boolean(first);
  }
}
