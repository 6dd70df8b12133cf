// The sentence of a refused order: the field that it names is marked and holds the focus until something
// is edited.

import { setText } from "./dom.js";
import { labelled, settingNamed } from "./settings.js";

export class Refusal {
  // `slot` has an id; `fields`: the server's name of a setting -> its control.
  constructor(slot, fields) {
    this.slot = slot;
    this.fields = fields;
    for (const field of Object.values(fields)) {
      field.setAttribute("aria-describedby", slot.id);
      field.addEventListener("input", () => this.clear());
    }
  }

  show(text) {
    this.clear();
    setText(this.slot, labelled(text));
    this.slot.hidden = false;
    this.slot.scrollIntoView({ block: "nearest" });
    this.mark(this.fields[settingNamed(text)]);
  }

  mark(field) {
    field?.setAttribute("aria-invalid", "true");
    field?.focus({ preventScroll: true });
  }

  clear() {
    this.slot.hidden = true;
    for (const field of Object.values(this.fields)) field.removeAttribute("aria-invalid");
  }
}
