// The card that says which run is shown: menu, file, save, and what came of it.
// Knows names and files; opens nothing itself.

import { element, option, setText } from "../dom.js";

export const RACE = ""; // the menu's value for the race of this page

export function recordedGroup(recorded) {
  const group = element("optgroup");
  group.label = "Recorded, one for each method";
  group.append(...recorded.map(({ name, title }) => option(name, title)));
  return group;
}

export class RunMenu {
  constructor(refs, recorded, { onChoose, onFile, onSave }) {
    const { stepTrace, stepOpen, stepFile, stepSave, step, stepNote, stepError } = refs;
    Object.assign(this, { menu: stepTrace, note: stepNote, error: stepError });
    stepTrace.append(option(RACE, "The race of this page"), recordedGroup(recorded));
    stepTrace.addEventListener("change", () => onChoose(stepTrace.value));
    stepOpen.addEventListener("click", () => stepFile.click());
    stepSave.addEventListener("click", () => onSave());
    stepFile.addEventListener("change", () => {
      const [file] = stepFile.files;
      stepFile.value = ""; // so that the same file can be chosen again
      if (file) onFile(file);
    });
    step.addEventListener("dragover", (event) => event.preventDefault());
    step.addEventListener("drop", (event) => {
      event.preventDefault();
      const [file] = event.dataTransfer.files;
      if (file) onFile(file);
    });
  }

  add(name, title) {
    const isKnown = [...this.menu.options].some((each) => each.value === name);
    if (!isKnown) this.menu.append(option(name, title));
  }

  select(name) {
    this.menu.value = name;
  }

  tell(text) {
    this.error.hidden = true;
    setText(this.note, text);
  }

  fail(text) {
    setText(this.note, "");
    setText(this.error, text);
    this.error.hidden = false;
  }
}
