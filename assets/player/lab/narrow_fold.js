// A form that goes behind one line on a narrow screen once there is a result, which then comes first.
// On a wide one nothing happens: lab.css. Knows the form, and the button that brings it back.

export class NarrowFold {
  /**
   * @param {HTMLElement} form
   * @param {HTMLButtonElement} button
   */
  constructor(form, button) {
    this.form = form;
    button.addEventListener("click", () => {
      this.open();
      form.querySelector("select")?.focus({ preventScroll: true });
    });
  }

  // Not under the hands of whoever edits it.
  close() {
    const { activeElement } = document;
    const isEdited = this.form.contains(activeElement) && activeElement?.matches("input, textarea, select");
    if (!isEdited) this.form.classList.add("is-folded");
  }

  open() {
    this.form.classList.remove("is-folded");
  }
}
