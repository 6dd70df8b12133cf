// A button that shows the prompt as the model got it: in its chat template, with the control tokens. Only
// there where a run has a template.

export class TemplateToggle {
  /**
   * @param {HTMLButtonElement} button
   * @param {() => Ribbon[]} texts that begin with the prompt
   * @param {() => void} onChange hears that the prompt is to be shown in the other form
   */
  constructor(button, texts, onChange) {
    this.button = button;
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(!this.isOn));
      onChange();
      for (const text of texts()) text.scrollTo(0); // there it is seen
    });
  }

  get isOn() {
    return this.button.getAttribute("aria-pressed") === "true";
  }

  // Another run, null for none.
  /** @param {Trace | null} trace */
  show(trace) {
    this.button.hidden = !trace?.templatedPrompt;
  }

  // A run's prompt in the form that was chosen: tokens, or the text that was typed.
  /** @param {Trace} trace */
  promptOf(trace) {
    return (this.isOn ? trace.templatedPrompt : null) ?? trace.header.prompt;
  }
}
