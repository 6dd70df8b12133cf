// The notice that lists what a page could not read in a link.

import { element } from "./dom.js";

// Show the problems as a list, or `otherwise` if there are none. Without both, hide the notice.
/**
 * @param {HTMLElement} notice
 * @param {string[]} problems
 * @param {string} [otherwise]
 */
export function showLinkProblems(notice, problems, otherwise = "") {
  notice.hidden = !problems.length && !otherwise;
  if (!problems.length) return notice.replaceChildren(otherwise);
  const list = element("ul");
  list.append(...problems.map((problem) => element("li", "", `${problem}.`)));
  notice.replaceChildren(
    "The link could not be read in full. The defaults replace what was wrong:",
    list,
  );
}

// Return the name under which the user sees a control, or the name of its parameter in the link if
// the control has no label and no legend.
/**
 * @param {any} control
 * @param {string} parameter
 */
export function visibleName(control, parameter) {
  const title = control.labels?.[0] ?? control.closest?.("fieldset")?.querySelector("legend");
  return title?.childNodes[0]?.textContent.trim() || parameter;
}
