// A select menu whose choices can have a second line, be grouped, or be disabled. If the browser
// allows pages to style such a list, each choice shows its second line. Otherwise the list shows
// titles only, and disabled choices also show the reason.

import { element } from "./dom.js";

const IS_RICH = CSS.supports("appearance", "base-select");

export class Menu {
  /** @param {HTMLSelectElement} select */
  constructor(select, isRich = IS_RICH) {
    this.select = select;
    this.isRich = isRich;
    this.signature = "";
  }

  // Choices have the form {name, title, note, refusal, group}; only the first two are required. The
  // current choice is kept even if it is now disabled, so that the user sees the reason and can
  // decide.
  /** @param {Choice[]} choices */
  fill(choices) {
    const signature = JSON.stringify(choices);
    if (signature === this.signature) return;
    this.signature = signature;
    const { value } = this.select;
    this.select.replaceChildren(...this.button(), ...this.grouped(choices));
    if (choices.some((each) => each.name === value)) this.select.value = value;
  }

  // Return the button of a styled menu. The browser copies the content of the chosen option into
  // it.
  button() {
    if (!this.isRich) return [];
    const button = element("button");
    button.append(document.createElement("selectedcontent"));
    return [button];
  }

  /** @param {Choice[]} choices */
  grouped(choices) {
    const groups = new Map();
    for (const each of choices) {
      const title = each.group ?? "";
      groups.set(title, [...(groups.get(title) ?? []), this.option(each)]);
    }
    return [...groups].flatMap(([title, options]) =>
      title ? [this.group(title, options)] : options,
    );
  }

  /**
   * @param {string} title
   * @param {HTMLElement[]} options
   */
  group(title, options) {
    const made = element("optgroup");
    if (this.isRich) made.append(element("legend", "", title));
    else made.label = title;
    made.append(...options);
    return made;
  }

  /** @param {Choice} choice */
  option({ name, title, note = "", refusal = "" }) {
    const made = element("option", "", title);
    made.value = name;
    made.disabled = refusal !== "";
    if (!this.isRich) {
      if (refusal) made.append(`: ${refusal}`);
    } else if (refusal || note) {
      made.append(element("small", refusal ? "refusal" : "", refusal || note));
    }
    return made;
  }
}
