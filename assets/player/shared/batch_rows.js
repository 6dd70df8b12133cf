// Shows a batch of texts that are decoded together, one row per text: how far each text is after
// some rounds, the drafted tokens of the last round with their outcomes, and which texts have
// ended. It reads the server's message about a batch and is independent of any page.

import { element } from "./dom.js";
import { tokenLabel } from "./token_label.js";

/** @typedef {{ guesses: string[], outcomes: string[], written: string[] }} RowRound */
/** @typedef {{ prompt: string, first: string, rounds: RowRound[] }} BatchRow */
/** @typedef {{ seconds: number, rows: number, tokens: number, padding: number }} BatchStep */
/** @typedef {{ model: string, drafter: string, length: number, rows: BatchRow[], plain: BatchStep[], steps: BatchStep[] }} BatchMessage */

const SEEN = 74; // length of the visible end of a text, in characters
const SHOWN = 48; // length of the visible beginning of a prompt, in characters

// Return the first words of a prompt.
/** @param {string} prompt */
export function promptLine(prompt) {
  const line = prompt.trimStart().split("\n", 1)[0];
  return line.length > SHOWN ? line.slice(0, SHOWN + 1).replace(/\W+\w*$/, "") : line;
}

export class BatchRows {
  // The caller adds `box` to the page.
  constructor() {
    this.box = element("ol", "batch-rows");
    this.box.setAttribute("aria-label", "Rows of the batch");
    this.at = 0;
    this.isTold = true;
  }

  // Show the texts after `at` rounds. If `isTold` is false, the outcomes of the last round's
  // drafted tokens are hidden.
  /**
   * @param {BatchRow[]} rows
   * @param {number} at
   */
  draw(rows, at, isTold = true) {
    this.at = at;
    this.isTold = isTold;
    this.box.replaceChildren(...rows.map((row) => this.rowOf(row)));
  }

  /** @param {BatchRow} row */
  rowOf(row) {
    const { at } = this;
    const isOver = row.rounds.length < at;
    const made = element("li", isOver ? "is-over" : "");
    const round = isOver ? undefined : row.rounds[at - 1];
    const before = this.isTold ? at : at - 1;
    const text = [row.first, ...row.rounds.slice(0, before).flatMap(({ written }) => written)].join(
      "",
    );
    made.append(
      element("span", "batch-prompt", promptLine(row.prompt)),
      this.track(row, before),
      this.text(text),
      this.guesses(round, isOver),
    );
    return made;
  }

  // Return one square for each token of a text, grouped by round.
  /**
   * @param {BatchRow} row
   * @param {number} rounds
   */
  track(row, rounds) {
    const track = element("span", "batch-track");
    const counts = [1, ...row.rounds.slice(0, rounds).map(({ written }) => written.length)];
    for (const count of counts) {
      const group = element("span", "batch-look");
      group.append(...Array.from({ length: count }, () => element("i")));
      track.append(group);
    }
    const total = counts.reduce((sum, each) => sum + each, 0);
    track.append(element("b", "number", `${total} ${total === 1 ? "token" : "tokens"}`));
    return track;
  }

  /** @param {string} text */
  text(text) {
    return element(
      "span",
      "batch-text",
      text.length > SEEN ? `… ${text.slice(-SEEN)}` : text.trimStart(),
    );
  }

  /**
   * @param {RowRound | undefined} round
   * @param {boolean} isOver
   */
  guesses(round, isOver) {
    const box = element("span", "batch-guesses");
    if (!round) {
      box.append(element("span", "hint", isOver ? "has ended: its row is free" : ""));
      return box;
    }
    round.guesses.forEach((guess, at) => {
      const outcome = this.isTold ? round.outcomes[at] : "";
      box.append(element("span", `typed-guess ${outcome}`, tokenLabel(guess)));
    });
    const kept = round.outcomes.filter((outcome) => outcome === "accepted").length;
    const added = round.written[kept];
    if (this.isTold && added !== undefined)
      box.append(element("span", "hint", "+ "), element("span", "batch-added", tokenLabel(added)));
    return box;
  }
}

// Say what the target computed in round `at`, counted from 1. `name` is the word that the sentence
// uses for a round.
/**
 * @param {BatchMessage} found
 * @param {number} at
 */
export function roundWords({ rows: all, steps }, at, name = "Round") {
  if (!at) return `${all.length} prompts have been read. Each row has one token.`;
  const { rows, tokens, padding, seconds } = steps[at - 1];
  const empty = padding ? `, and ${padding} positions stayed empty` : "";
  return `${name} ${at} of ${steps.length}: ${tokens} ${tokens === 1 ? "token" : "tokens"} of ${rows} ${rows === 1 ? "row" : "rows"} ran together in ${(1000 * seconds).toPrecision(3)} ms${empty}.`;
}
