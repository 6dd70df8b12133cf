// A text recorded at temperature 0, as a game for the learner. The text continues in the same way
// whatever is drafted, so the recording can judge any draft. This module makes the messages that
// the server would send for a run.

/** @typedef {{ token: string, likely: [string, number][], rival: string[], seconds: number }} Place */
/** @typedef {{ prompt: string, target: string, rival: string, begun: string[], places: Place[] }} Recorded */

export class RecordedGame {
  /** @param {Recorded} recorded */
  constructor(recorded) {
    this.recorded = recorded;
    /** @type {string[]} token texts; the id of a token is its index here */
    this.texts = [];
    this.at = 0; // the position that is drafted next
  }

  begin() {
    this.at = 0;
    return this.message({ begun: this.recorded.begun.map((text) => this.number(text)) });
  }

  // Return the target's verdicts on a typed draft. If the draft is empty, the target only writes
  // one token. If `isKept` is false, the target's tokens are shown but not added to the text.
  /** @param {string} typed */
  judge(typed, isKept = true) {
    const { places, rival } = this.recorded;
    const place = places[this.at];
    const guess = pieces(
      typed,
      places.slice(this.at).map(({ token }) => token),
    );
    const round = this.round(guess, place);
    const other = this.round(place.rival.slice(0, guess.length), place);
    const most = places.length - this.at;
    if (isKept)
      this.at += Math.min(
        most,
        round.verdicts.outcome.filter((/** @type {string} */ each) => each === "accepted").length +
          1,
      );
    return this.message({
      round,
      rival: guess.length ? other : null,
      rival_title: rival,
      has_ended: this.at >= places.length,
    });
  }

  /**
   * @param {string[]} guess
   * @param {Place} place
   */
  round(guess, place) {
    const { places } = this.recorded;
    const wrong = guess.findIndex((text, index) => places[this.at + index]?.token !== text);
    const kept = wrong < 0 ? guess.length : wrong;
    const outcome = guess.map((_, index) =>
      index < kept ? "accepted" : index === kept ? "rejected" : "unreached",
    );
    const chance = outcome.map((each) => (each === "accepted" ? 1 : 0));
    const nothing = guess.map(() => null);
    const next = places[this.at + kept];
    const kind = wrong >= 0 ? "recovered" : guess.length ? "bonus" : "plain";
    return {
      rule: "token",
      tree: {
        drawing: "chosen",
        nodes: {
          id: guess.map((text) => this.number(text)),
          parent: guess.map((_, index) => index - 1),
          depth: guess.map((_, index) => index + 1),
        },
      },
      verdicts: {
        outcome,
        p: chance,
        q: guess.map(() => 1),
        accept: chance,
        u: nothing,
        residual: nothing,
        raw_p: chance,
        raw_q: nothing,
      },
      positions: [
        {
          parent: -1,
          id: place.likely.map(([text]) => this.number(text)),
          p: place.likely.map(([, p]) => p),
        },
      ],
      extra: next ? { id: this.number(next.token), kind, parent: kept - 1, prob: 1 } : null,
      verify_seconds: place.seconds,
    };
  }

  /** @param {object} changes */
  message(changes) {
    const nothing = {
      kind: "typed",
      begun: [],
      round: null,
      rival: null,
      rival_title: this.recorded.rival,
      has_ended: false,
    };
    return { ...nothing, ...changes, texts: { ...this.texts } };
  }

  /** @param {string} text */
  number(text) {
    const known = this.texts.indexOf(text);
    return known < 0 ? this.texts.push(text) - 1 : known;
  }
}

// Split a typed text into tokens as far as it equals the recorded text, and after that into words.
/**
 * @param {string} typed
 * @param {string[]} tokens
 */
export function pieces(typed, tokens) {
  /** @type {string[]} */
  const found = [];
  let rest = typed;
  while (rest && tokens[found.length] && rest.startsWith(tokens[found.length])) {
    found.push(tokens[found.length]);
    rest = rest.slice(/** @type {string} */ (found.at(-1)).length);
  }
  return [...found, ...(rest.match(/\s*\S+|\s+$/g) ?? [])];
}
