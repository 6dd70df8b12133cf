// The table of one round's walk up to the current moment: the drafted or examined tokens in order,
// and the numbers that decided each.

import { EXTRA } from "../shared/cursor.js";
import { element, onNode } from "../shared/dom.js";
import { compared, percent } from "../shared/number_words.js";
import { tokenLabel } from "../shared/token_label.js";
import {
  extraNumbers,
  judgedNumbers,
  outcomeOf,
  verdictHead,
  verdictRow,
} from "../shared/verdict_row.js";
import { stageOf } from "./moments.js";

const MOST_KEPT = 10; // rows for which space is reserved
const ROW_EMS = 2.17;
const LONG_NUMBER = 7; // characters above which a number gets a smaller font

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
    // Rows are added while the user steps through the round. So that the cards below do not move,
    // reserve the height of all rows: the guesses, the target's token, the header row and two
    // wrapped lines.
    const rows = Math.min(round.outcomes.length, MOST_KEPT) + 2;
    /** @type {HTMLElement} */ (this.table.parentElement).style.minHeight =
      `${rows * ROW_EMS + 2}em`;
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
  made.append(cell, element("td")); // the last column holds the verdict
  return made;
}

// Return one row of the table. Each number appears only once it is known: p after the target has
// run, u when the rule compares it.
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
  for (const cell of made.querySelectorAll(".number"))
    cell.classList.toggle("is-long", (cell.textContent ?? "").length > LONG_NUMBER);
  /** @type {HTMLElement} */ (made.firstElementChild).title = text; // the visible text may be cut off
  return made;
}

// Return the texts of the cells: p, q, the acceptance threshold, and u. A number that is not known
// at this stage is "".
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
  return [
    ...compared(round.isGreedy ? raw_p : p, q),
    "",
    round.isTypical || round.isGreedy ? "–" : "",
  ];
}

// The rows of the table at a moment: the tokens drafted so far, or the tokens examined so far and
// those that may be examined next. No row may show how the walk ends.
const SHOWN = 10; // largest number of rows for tokens that are not judged yet

// Return { before, stops, after, isEnding }. `before` and `after` count the stops that were left
// out on each side. `isEnding` is true if the target's own token is next.
/**
 * @param {Round} round
 * @param {Moment[]} moments
 * @param {number} at
 */
function walkRows(round, moments, at) {
  const { phase, level, node } = moments[at];
  if (phase === "draft") return around(draftedBy(round, level ?? 0), node);
  if (phase === "verify") return around(round.indices, null);
  const judged = moments
    .slice(0, at + 1)
    .filter(isExamined)
    .map((each) => each.node ?? EXTRA);
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

// Return at most SHOWN of the nodes, always including the one under the cursor.
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

// Return the nodes that may be examined after the verdict on a node. If the node was accepted,
// these are its children. If it was rejected, these are its later siblings. A rule that judges
// whole paths examines each node after its children, and after an accepted node only the nodes
// above it.
/**
 * @param {Round} round
 * @param {number} node
 */
function candidates(round, node) {
  const { parent } = round.record.tree.nodes;
  if (round.isJoint) {
    const order = round.upwards();
    const later = order.slice(order.indexOf(node) + 1);
    return round.outcomes[node] === "accepted"
      ? later.filter((each) => round.accepted.includes(each))
      : later;
  }
  if (round.outcomes[node] === "accepted")
    return round.indices.filter((each) => parent[each] === node);
  return round.indices.filter((each) => parent[each] === parent[node] && each > node);
}
