// A select whose choices may have a second line, stand in groups, or be out of reach. Where the browser
// lets a page style its list, each choice shows its second line; elsewhere the list has titles, and the
// reason behind those out of reach.

import { element } from "./dom.js";

const IS_RICH = CSS.supports("appearance", "base-select");

export class Menu {
  /** @param {HTMLSelectElement} select */
  constructor(select, isRich = IS_RICH) {
    this.select = select;
    this.isRich = isRich;
    this.signature = "";
  }

  // Choices are {name, title, note, refusal, group}, all but the first two may be missing. The
  // choice that stands stays, even out of reach: whoever made it is told, not overruled.
  /** @param {Choice[]} choices */
  fill(choices) {
    const signature = JSON.stringify(choices);
    if (signature === this.signature) return;
    this.signature = signature;
    const { value } = this.select;
    this.select.replaceChildren(...this.button(), ...this.grouped(choices));
    if (choices.some((each) => each.name === value)) this.select.value = value;
  }

  // What the closed menu shows is the chosen option's own content, kept by the browser.
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
    return [...groups].flatMap(([title, options]) => (title ? [this.group(title, options)] : options));
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
