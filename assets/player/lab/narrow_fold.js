// A form that becomes a single line on a narrow screen once there is a result, so that the result
// is visible first. On a wide screen it has no effect (lab.css).

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

  // Fold the form, unless the user is editing it.
  close() {
    const { activeElement } = document;
    const isEdited =
      this.form.contains(activeElement) && activeElement?.matches("input, textarea, select");
    if (!isEdited) this.form.classList.add("is-folded");
  }

  open() {
    this.form.classList.remove("is-folded");
  }
}
