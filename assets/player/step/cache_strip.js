// The card that shows the target's KV cache during one round: the committed slots, then the slots
// of the root and of the draft tree.

import { element, onNode, setText } from "../shared/dom.js";
import { tokenLabel } from "../shared/token_label.js";

const SHOWN_COMMITTED = 12;

export class CacheStrip {
  /**
   * @param {HTMLElement} box
   * @param {HTMLElement} words
   * @param {{ onSelect: (node: number) => void }} given
   */
  constructor(box, words, { onSelect }) {
    this.box = box;
    this.words = words;
    onNode(box, onSelect);
  }

  /**
   * @param {Trace} trace
   * @param {Round} round
   * @param {Moment} moment
   * @param {number | null} node
   */
  draw(trace, round, moment, node) {
    const { committed, speculative: added } = round.record.cache;
    const isRun = moment.phase !== "draft";
    const isSettled = moment.phase === "commit";
    const cells = committedCells(committed);
    if (isRun) cells.push(slot("root kept", "root", "the last committed token: its slot stays"));
    if (isRun)
      cells.push(...round.indices.map((index) => treeSlot(trace, round, index, isSettled, node)));
    const riding = added - 1 - round.indices.length;
    if (isRun && riding > 0)
      cells.push(
        slot(
          "dropped",
          `+${riding}`,
          `${riding} extra queries run in the same forward; their slots are always dropped`,
        ),
      );
    this.box.replaceChildren(...cells);
    setText(this.words, wordsOf(round, moment));
  }
}

/** @param {number} count */
function committedCells(count) {
  const shown = Math.min(count, SHOWN_COMMITTED);
  const cells = Array.from({ length: shown }, () => slot("committed", "", "committed"));
  if (count > shown) cells.unshift(element("span", "more", `${count - shown} +`));
  return cells;
}

/**
 * @param {Trace} trace
 * @param {Round} round
 * @param {number} index
 * @param {boolean} isSettled
 * @param {number | null} node
 */
function treeSlot(trace, round, index, isSettled, node) {
  const rank = round.accepted.indexOf(index);
  const isMoved = rank >= 0 && rank !== index;
  const state = !isSettled ? "speculative" : rank < 0 ? "dropped" : isMoved ? "kept moved" : "kept";
  const text = tokenLabel(trace.text(round.tokenId(index)));
  const fate = {
    speculative: "speculative",
    dropped: "rolled back",
    kept: "kept",
    "kept moved": `kept, moved ${index - rank} to the left`,
  }[state];
  const cell = slot(state, text, `slot of ${text}: ${fate}`);
  cell.dataset.node = String(index);
  cell.classList.toggle("is-selected", index === node);
  return cell;
}

/**
 * @param {string} state
 * @param {string} text
 * @param {string} title
 */
function slot(state, text, title) {
  const cell = element("span", `slot ${state}`, text);
  cell.title = title;
  return cell;
}

/**
 * @param {Round} round
 * @param {Moment} moment
 */
export function wordsOf(round, { phase }) {
  const { committed, speculative: added, rolled_back: dropped } = round.record.cache;
  if (phase === "draft") return `${committed} committed slots; the target has not run yet`;
  const known = `${committed} committed, 1 root`; // the slot of the root is not counted as a drafted slot
  if (phase !== "commit") return `${known}, ${added - 1} speculative`;
  const moved = round.accepted.filter((node, rank) => node !== rank).length;
  return `${known}, ${added - 1 - dropped} kept${moved ? ` (${moved} moved)` : ""}, ${dropped} rolled back`;
}
