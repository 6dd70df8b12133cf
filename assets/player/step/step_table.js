// The walk of one round as far as it has come: what was drafted or examined, in order, and what decided
// it.

import { EXTRA } from "../shared/cursor.js";
import { element, onNode } from "../shared/dom.js";
import { compared, percent } from "../shared/number_words.js";
import { tokenLabel } from "../shared/token_label.js";
import { extraNumbers, judgedNumbers, outcomeOf, verdictHead, verdictRow } from "../shared/verdict_row.js";
import { stageOf } from "./moments.js";

const MOST_KEPT = 10; // rows
const ROW_EMS = 2.17;
const LONG_NUMBER = 7; // characters

export class StepTable {
  /**
   * @param {HTMLTableElement} table
   * @param {{ onSelect: (node: number) => void }} on
   */
  constructor(table, { onSelect }) {
    this.table = table;
    onNode(table, onSelect);
  }

  clear() {
    this.table.replaceChildren();
  }

  /**
   * @param {Trace} trace
   * @param {Round} round
   * @param {Moment[]} moments
   * @param {number} at
   */
  draw(trace, round, moments, at) {
    const [top, body] = [element("thead"), element("tbody")];
    const isDrafting = moments[at].phase === "draft" || moments[at].phase === "verify";
    const head = verdictHead(round, isDrafting ? "drafted" : "examined");
    const { before, stops, after, isEnding } = walkRows(round, moments, at);
    top.append(head);
    const say = (/** @type {string} */ words) => wordsRow(words, head.children.length);
    if (before) body.append(say(`${before} drafted before`));
    body.append(...stops.map((stop) => row(trace, round, stop, stageOf(round, moments, at, stop))));
    if (after) body.append(say(`and ${after} more`));
    if (isEnding) body.append(say("next: the target adds a token of its own"));
    body.querySelector(`[data-node="${moments[at].node}"]`)?.classList.add("is-selected");
    this.table.replaceChildren(top, body);
    // Room for the round's guesses, the target's token, the head and two second lines of small numbers: what comes in by and by moves no card.
    const rows = Math.min(round.outcomes.length, MOST_KEPT) + 2;
    /** @type {HTMLElement} */ (this.table.parentElement).style.minHeight = `${rows * ROW_EMS + 2}em`;
  }
}

/**
 * @param {string} words
 * @param {number} columns
 */
function wordsRow(words, columns) {
  const made = element("tr", "is-later");
  const cell = element("td", "", words);
  cell.colSpan = columns - 1;
  made.append(cell, element("td")); // the last column is the verdict's
  return made;
}

// Nothing shows before it is known: p when the target has seen the token, u when it is compared.
/**
 * @param {Trace} trace
 * @param {Round} round
 * @param {number} stop
 * @param {string} stage
 */
function row(trace, round, stop, stage) {
  const isKnown = stage === "judged";
  const text = round.tokenId(stop) === null ? "?" : tokenLabel(trace.text(round.tokenId(stop)));
  const values = stop === EXTRA ? extraNumbers(round) : numbers(round, stop, stage);
  const made = verdictRow(stop, text, values, isKnown ? (outcomeOf(round, stop) ?? "") : "");
  made.classList.toggle("is-later", !isKnown);
  for (const cell of made.querySelectorAll(".number")) cell.classList.toggle("is-long", (cell.textContent ?? "").length > LONG_NUMBER);
  /** @type {HTMLElement} */ (made.firstElementChild).title = text; // it may be cut
  return made;
}

// p, q, what the rule compares with u, and u.
/**
 * @param {Round} round
 * @param {number} stop
 * @param {string} stage
 */
function numbers(round, stop, stage) {
  const q = round.shownQ(stop);
  if (stage === "drafted") return ["", q === null ? "—" : percent(q), "", ""];
  if (stage === "judged") return judgedNumbers(round, stop);
  const { p, raw_p } = round.verdict(stop);
  return [...compared(round.isGreedy ? raw_p : p, q), "", round.isTypical || round.isGreedy ? "–" : ""];
}

// Which rows the table of a walk has at a moment: what was drafted by then, or what was examined by then
// and whose turn may come next. No row shows how the walk will end.
const SHOWN = 10; // of those that are not judged

// { before, stops, after, isEnding }: how many stops were left out on either side, and whether the
// target's own token comes next.
/**
 * @param {Round} round
 * @param {Moment[]} moments
 * @param {number} at
 */
function walkRows(round, moments, at) {
  const { phase, level, node } = moments[at];
  if (phase === "draft") return around(draftedBy(round, level ?? 0), node);
  if (phase === "verify") return around(round.indices, null);
  const judged = moments.slice(0, at + 1).filter(isExamined).map((each) => each.node ?? EXTRA);
  if (phase !== "judge") return { before: 0, stops: judged, after: 0, isEnding: false };
  const next = candidates(round, node ?? EXTRA);
  const shown = next.slice(0, SHOWN);
  const isEnding = !next.length && Boolean(round.extra);
  return { before: 0, stops: [...judged, ...shown], after: next.length - shown.length, isEnding };
}

/** @param {Moment} moment */
function isExamined({ phase }) {
  return phase === "judge" || phase === "extra";
}

/**
 * @param {Round} round
 * @param {number} level
 */
function draftedBy(round, level) {
  const { depth } = round.record.tree.nodes;
  return round.indices.filter((index) => depth[index] <= level);
}

// At most SHOWN of them, the one under the cursor always among them.
/**
 * @param {number[]} nodes
 * @param {number | null} selected
 */
function around(nodes, selected) {
  const at = Math.max(0, nodes.indexOf(selected ?? EXTRA));
  const from = Math.max(0, Math.min(at, nodes.length - SHOWN));
  const stops = nodes.slice(from, from + SHOWN);
  return { before: from, stops, after: nodes.length - from - stops.length, isEnding: false };
}

// Whose turn comes after this verdict: the children of what was accepted, else the siblings left.
/**
 * @param {Round} round
 * @param {number} node
 */
function candidates(round, node) {
  const { parent } = round.record.tree.nodes;
  if (round.outcomes[node] === "accepted") return round.indices.filter((each) => parent[each] === node);
  return round.indices.filter((each) => parent[each] === parent[node] && each > node);
}
