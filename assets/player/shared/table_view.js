// Rows of tables as views: headings, and cells for names and numbers.

import { termView } from "./term_view.js";
import { html } from "./view.js";

// The keys of the glossary terms that explain some of the headings.
/** @type {Record<string, string>} */
export const HEADINGS = {
  speedup: "speedup",
  "acceptance α": "acceptance_rate",
  rejection: "rejection_rate",
  utilization: "draft_utilization",
  "tokens per round": "block_efficiency",
  "cost c": "cost_ratio",
  "first token after": "ttft",
};

// The head of a table. A column without a heading gets an ordinary cell, so that screen readers do
// not read it as a heading.
/** @param {string[]} titles */
export function headView(titles) {
  return html`
    <thead>
      <tr>
        ${titles.map((title, at) => headCell(title, at ? "number" : ""))}
      </tr>
    </thead>
  `;
}

/**
 * @param {string} title
 * @param {string} className
 */
function headCell(title, className) {
  if (!title) return html`<td class=${className}></td>`;
  const term = HEADINGS[title];
  return html`<th class=${className} scope="col">${term ? termView(title, term) : title}</th>`;
}

// A row. Its first cell is the row's heading, and the other cells are values.
/** @param {(string | number)[]} cells */
export function rowView([name, ...values]) {
  return html`
    <tr>
      <th class="name" scope="row">${name}</th>
      ${values.map((value) => html`<td class="number">${value}</td>`)}
    </tr>
  `;
}
