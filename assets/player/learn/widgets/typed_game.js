// A text that a learner and a model write together, round by round: the tokens so far, and the
// drafts of the learner and of a small model.

import { Round } from "../../shared/round.js";

/** @typedef {{ id: number, origin: string }} WrittenToken */

export class TypedGame {
  constructor() {
    /** @type {WrittenToken[]} */
    this.written = [];
    /** @type {Map<number, string>} */
    this.texts = new Map();
    /** @type {Round | null} the last round, with the learner's draft */
    this.round = null;
    /** @type {Round | null} a round at the same position, with the small model's draft */
    this.rival = null;
    this.rivalTitle = "";
    this.hasEnded = false;
    this.rounds = 0; // number of rounds with a draft
    this.own = new Score();
    this.other = new Score();
  }

  get ids() {
    return this.written.map(({ id }) => id);
  }

  /** @param {any} message a message of the kind "typed" */
  take({ begun, round, rival, rival_title: title, texts, has_ended: hasEnded }) {
    for (const [id, text] of Object.entries(texts)) this.texts.set(Number(id), text);
    this.rivalTitle = title;
    this.hasEnded = hasEnded;
    this.written.push(
      ...begun.map((/** @type {number} */ id, /** @type {number} */ at) => ({
        id,
        origin: at ? "plain" : "first",
      })),
    );
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

// Counts the accepted, the drafted and the examined tokens.
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

  // The share of examined tokens that were accepted, or undefined if there are none.
  get rate() {
    return this.examined ? this.kept / this.examined : undefined;
  }
}

// Return the most probable tokens after the root of a round.
/**
 * @param {RoundRecord} record
 * @param {number} most
 */
export function likeliest({ positions }, most) {
  const root = positions.find(({ parent }) => parent === -1);
  return root ? root.id.slice(0, most).map((id, at) => ({ id, p: root.p[at] })) : [];
}

// Return by how much the learner's acceptance rate exceeds the small model's.
/**
 * @param {{ rate: number | undefined }} own
 * @param {{ rate: number | undefined }} other
 */
export function lead({ rate: own }, { rate: other }) {
  return own === undefined || other === undefined ? undefined : own - other;
}

// Return the range in which the difference of the two rates probably lies: two standard errors on
// both sides of it. The errors are computed as if two more tokens had been examined, one of them
// accepted. Otherwise a few tokens with the same outcome would look certain.
/**
 * @param {{ rate: number | undefined, kept: number, examined: number }} own
 * @param {{ rate: number | undefined, kept: number, examined: number }} other
 * @returns {Record<string, Possible>}
 */
export function leadRange(own, other) {
  const found = lead(own, other);
  if (found === undefined) return {};
  const variances = [own, other].map(
    ({ kept, examined }) => ((kept + 1) * (examined - kept + 1)) / (examined + 2) ** 3,
  );
  const by = 2 * Math.sqrt(variances[0] + variances[1]);
  const points = Math.round(100 * by);
  return {
    lead: {
      values: [found - by, found + by],
      words: `You: ${own.kept} of ${own.examined} examined tokens. The machine: ${other.kept} of ${other.examined}. With so few, chance alone can move the difference by ${points} percentage points.`,
    },
  };
}
