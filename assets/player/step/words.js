// Which words of the debugger explain themselves: the heads of the walk's table, the letter of a drawn
// token's probability, the names of the numbers. The views write them; here they become terms.
// Knows labels and keys of the glossary; no view.

import { termButton } from "../shared/terms.js";

// the beginning of a label -> its term
const HEADS = { "raw p": "target", "raw q": "draft", p: "target", q: "draft", "p/q": "acceptance_prob", "p/1": "point_mass", u: "uniform_draw" };
const NUMBERS = { entropy: "entropy", overlap: "overlap", "top-2": "margin", KL: "kl_divergence" };
const RESIDUAL = /^r (?=[\d?])/;

export function explainWalk(table, { isPointMass }) {
  const keyOf = (text) => (isPointMass && text.endsWith("q") ? "point_mass" : HEADS[text]);
  for (const head of table.querySelectorAll("th:not(:has(.term))")) mark(head, head.textContent, keyOf(head.textContent));
  for (const cell of table.querySelectorAll("td.number:not(:has(.term))")) {
    if (RESIDUAL.test(cell.textContent)) mark(cell, "r", "residual_prob");
  }
}

export function explainNumbers(list) {
  for (const name of list.querySelectorAll("dt:not(:has(.term))")) {
    const start = Object.keys(NUMBERS).find((each) => name.textContent.startsWith(each));
    if (start) mark(name, name.textContent, NUMBERS[start]);
  }
}

// The first letters of `place`, which are `text`, become the term.
function mark(place, text, key) {
  if (!key) return;
  place.replaceChildren(termButton(text, key), place.textContent.slice(text.length));
}
