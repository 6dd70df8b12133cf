// A configuration in several formats (command line, YAML, …). One format is shown and can be
// copied.

import { element, setText } from "../shared/dom.js";
import { copied } from "../shared/surround.js";

const BACK_MILLISECONDS = 2500; // time until the button shows its usual word again

export class EngineForms {
  /**
   * @param {HTMLElement} box
   * @param {Choice[]} kinds
   */
  constructor(box, kinds) {
    this.box = box;
    this.kinds = kinds;
    this.chosen = kinds[0].name;
    /** @type {Record<string, string>} */
    this.forms = {};
    this.choice = element("div", "segments");
    this.choice.role = "group";
    this.choice.ariaLabel = "Form of the configuration";
    this.text = element("pre", "engine-text");
    this.text.tabIndex = 0;
    this.copy = element("button", "chip", "Copy");
    this.copy.type = "button";
    this.copy.addEventListener("click", () => this.copyText());
    this.remarks = element("ul", "report");
    const head = element("div", "row");
    head.append(this.choice, this.copy);
    box.append(head, this.text, this.remarks);
  }

  // Show a configuration. If it has no format, the copy button is hidden.
  /**
   * @param {Record<string, string>} forms
   * @param {string[]} remarks
   * @param {string} [level] CSS class of the remarks
   */
  show(forms, remarks, level = "warning") {
    this.forms = forms;
    const offered = this.kinds.filter(({ name }) => forms[name]);
    if (offered.length && !forms[this.chosen]) this.chosen = offered[0].name;
    this.choice.replaceChildren(...offered.map((kind) => this.button(kind)));
    this.remarks.replaceChildren(...remarks.map((text) => element("li", level, text)));
    this.remarks.hidden = !remarks.length;
    for (const each of [this.choice, this.copy, this.text]) each.hidden = !offered.length;
    this.box.hidden = !offered.length && !remarks.length;
    this.showText();
  }

  /** @param {Choice} kind */
  button({ name, title }) {
    const made = element("button", "", title);
    made.type = "button";
    made.dataset.form = name;
    made.addEventListener("click", () => ((this.chosen = name), this.showText()));
    return made;
  }

  showText() {
    setText(this.text, this.forms[this.chosen] ?? "");
    for (const each of /** @type {NodeListOf<HTMLElement>} */ (
      this.choice.querySelectorAll("button")
    ))
      each.setAttribute("aria-pressed", String(each.dataset.form === this.chosen));
    const { title = "" } = this.kinds.find(({ name }) => name === this.chosen) ?? {};
    this.text.ariaLabel = `Configuration: ${title}`;
    this.copy.ariaLabel = `Copy: ${title}`;
  }

  async copyText() {
    const isCopied = await copied(this.forms[this.chosen]);
    setText(this.copy, isCopied ? "Copied" : "Select the text and copy it");
    if (!isCopied) window.getSelection()?.selectAllChildren(this.text);
    window.setTimeout(() => setText(this.copy, "Copy"), BACK_MILLISECONDS);
  }
}
