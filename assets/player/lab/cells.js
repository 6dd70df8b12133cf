// Helpers that make table rows from texts: headings, and cells for names and numbers.

import { element } from "../shared/dom.js";
import { heldMemory } from "../shared/memory_words.js";
import { HEADINGS } from "../shared/table_view.js";
import { termButton } from "../shared/terms.js";

/** @param {string[]} titles */
export function headRow(titles) {
  const head = element("thead");
  const row = element("tr");
  row.append(...titles.map((title, at) => headCell(title, at ? "number" : "")));
  head.append(row);
  return head;
}

// Return the cell of a column heading. A column without a heading gets an ordinary cell, so that
// screen readers do not read it as a heading.
/**
 * @param {string} title
 * @param {string} className
 */
export function headCell(title, className) {
  if (!title) return element("td", className);
  const made = element("th", className);
  made.scope = "col";
  made.append(HEADINGS[title] ? termButton(title, HEADINGS[title]) : title);
  return made;
}

// Return a table row. Its first cell is the row's heading, and the other cells are values.
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

// Return the memory for weights and caches in words. Say so if the sweep did not measure the
// caches.
/** @param {any} point */
export function memoryWords(point) {
  const weights = point?.drafter_bytes;
  if (weights === null || weights === undefined) return DASH;
  const { sum } = heldMemory(weights, point.drafter_cache_bytes);
  return point.drafter_cache_bytes == null ? `${sum}, weights alone` : sum;
}
