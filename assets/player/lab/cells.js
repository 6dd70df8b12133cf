// Rows of a table out of texts: headings, and cells that may hold numbers.

import { element } from "../shared/dom.js";

/** @param {string[]} titles */
export function headRow(titles) {
  const head = element("thead");
  const row = element("tr");
  for (const title of titles) {
    const made = element(title ? "th" : "td", row.children.length ? "number" : "", title); // a corner heads nothing
    if (title) made.scope = "col";
    row.append(made);
  }
  head.append(row);
  return head;
}

// The first cell names the row.
/** @param {string[]} given */
export function bodyRow([name, ...values], className = "") {
  const row = element("tr", className);
  const first = element("th", "name", name);
  first.scope = "row";
  row.append(first, ...values.map((value) => element("td", "number", value)));
  return row;
}

/** @param {HTMLElement[]} rows */
export function body(rows) {
  const made = element("tbody");
  made.append(...rows);
  return made;
}

export const DASH = "–";

/** @param {number | null | undefined} bytes */
export function megabytes(bytes) {
  return bytes === null || bytes === undefined ? DASH : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** @param {number | null | undefined} seconds */
export function milliseconds(seconds) {
  return seconds === null || seconds === undefined ? DASH : `${(1000 * seconds).toFixed(0)} ms`;
}
