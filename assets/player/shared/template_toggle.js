// A button that shows the prompt as the model received it, in its chat template with the control
// tokens. The button is visible only if the run has a template.

export class TemplateToggle {
  /**
   * @param {HTMLButtonElement} button
   * @param {() => Ribbon[]} texts returns the texts that begin with the prompt
   * @param {() => void} onChange is called after a click, to show the prompt in the other form
   */
  constructor(button, texts, onChange) {
    this.button = button;
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(!this.isOn));
      onChange();
      for (const text of texts()) text.scrollTo(0); // scroll to the prompt
    });
  }

  get isOn() {
    return this.button.getAttribute("aria-pressed") === "true";
  }

  // Show or hide the button for another run. Null means that there is no run.
  /** @param {Trace | null} trace */
  show(trace) {
    this.button.hidden = !trace?.templatedPrompt;
  }

  // Return the prompt of a run in the chosen form: as tokens, or as the typed text.
  /** @param {Trace} trace */
  promptOf(trace) {
    return (this.isOn ? trace.templatedPrompt : null) ?? trace.header.prompt;
  }
}
