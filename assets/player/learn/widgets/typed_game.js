// A text that a person and a model write together, round by round: what was written, what each has guessed.
// Knows no page and no server.

import { Round } from "../../shared/round.js";

/** @typedef {{ id: number, origin: string }} WrittenToken */

export class TypedGame {
  constructor() {
    /** @type {WrittenToken[]} */
    this.written = [];
    /** @type {Map<number, string>} */
    this.texts = new Map();
    /** @type {Round | null} the last one */
    this.round = null;
    /** @type {Round | null} at the same place */
    this.rival = null;
    this.rivalTitle = "";
    this.hasEnded = false;
    this.rounds = 0; // that were judged
    this.own = new Score();
    this.other = new Score();
  }

  get ids() {
    return this.written.map(({ id }) => id);
  }

  /** @param {any} message of kind "typed" */
  take({ begun, round, rival, rival_title: title, texts, has_ended: hasEnded }) {
    for (const [id, text] of Object.entries(texts)) this.texts.set(Number(id), text);
    this.rivalTitle = title;
    this.hasEnded = hasEnded;
    this.written.push(...begun.map((/** @type {number} */ id, /** @type {number} */ at) => ({ id, origin: at ? "plain" : "first" })));
    if (!round) return;
    this.round = new Round(round, 0, {}, {});
    this.written.push(...this.round.emitted);
    if (!this.round.outcomes.length) return;
    this.rounds += 1;
    this.own.count(this.round);
    this.rival = rival ? new Round(rival, 0, {}, {}) : null;
    if (this.rival) this.other.count(this.rival);
  }

  /** @param {number} id */
  text(id) {
    return this.texts.get(id) ?? `#${id}`;
  }
}

// How many guessed tokens were kept, thrown away, and never looked at.
class Score {
  constructor() {
    this.kept = this.guessed = this.examined = 0;
  }

  /** @param {Round} round */
  count({ outcomes, accepted }) {
    this.kept += accepted.length;
    this.guessed += outcomes.length;
    this.examined += outcomes.filter((outcome) => outcome !== "unreached").length;
  }

  // Of those that were examined; undefined before there was any.
  get rate() {
    return this.examined ? this.kept / this.examined : undefined;
  }
}

// The most probable next tokens that a round has seen at its root.
/**
 * @param {RoundRecord} record
 * @param {number} most
 */
export function likeliest({ positions }, most) {
  const root = positions.find(({ parent }) => parent === -1);
  return root ? root.id.slice(0, most).map((id, at) => ({ id, p: root.p[at] })) : [];
}
