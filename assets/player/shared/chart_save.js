// "PNG" and "SVG" beside a chart's title, faint until the pointer or the focus comes near. Their room
// is always kept, so they cover nothing. Knows a chart's name and that it can make a picture of itself;
// nothing of what it shows.

import { element } from "./dom.js";

const FORMATS = ["png", "svg"];

export class ChartSave {
  // `save(format, name)` makes the picture.
  constructor(box, save) {
    this.box = box;
    this.bar = element("div", "chart-save");
    this.bar.hidden = true;
    for (const format of FORMATS) this.bar.append(this.button(format, save));
    this.join(titleOf(box.closest(".scroller") ?? box));
  }

  join(title) {
    const row = element("div", "chart-head");
    title.before(row);
    row.append(title, this.bar);
  }

  button(format, save) {
    const made = element("button", "", format.toUpperCase());
    made.type = "button";
    const title = this.box.getAttribute("aria-label");
    made.setAttribute("aria-label", `${made.textContent} of this chart: ${title}`);
    made.title = `Save this chart as ${made.textContent}`;
    made.addEventListener("click", () => save(format, `specviz-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`));
    return made;
  }

  show(isThere) {
    this.bar.hidden = !isThere;
  }
}

// The nearest heading before an element.
function titleOf({ previousElementSibling: before }) {
  return before.matches("h3") ? before : titleOf(before);
}
