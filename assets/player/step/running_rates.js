// Acceptance and rejection rates up to the shown moment, level by level, as two curves and a
// sentence.

import { CURVE, drawCurve, keyLine } from "../shared/came_out.js";
import { drawing, element, setText } from "../shared/dom.js";

/** @typedef {import("./moments.js").Judged} Judged */

// Return the acceptance rate after each examined level of these rounds. The rates count levels.
// `drafted` and `unreached` count tokens, because a level of a tree can have several.
/** @param {Judged[]} rounds */
export function runningRates(rounds) {
  const levels = rounds.flatMap((round) => round.levels);
  let accepted = 0;
  const rates = levels
    .filter((outcome) => outcome !== "unreached")
    .map((outcome, at) => {
      if (outcome === "accepted") accepted += 1;
      return accepted / (at + 1);
    });
  const drafted = rounds.reduce((sum, each) => sum + each.drafted, 0);
  const unreached = rounds.reduce((sum, each) => sum + each.unreached, 0);
  const undecided = rounds.reduce((sum, each) => sum + each.undecided, 0);
  const behind = rounds.reduce((sum, each) => sum + (each.behind ?? 0), 0);
  return { rates, accepted, examined: rates.length, drafted, unreached, undecided, behind };
}

/**
 * @param {ReturnType<typeof runningRates>} found
 * @param {boolean} isTree true if a level may have several guesses
 */
export function ratesWords({ accepted, examined, drafted, unreached, undecided, behind }, isTree) {
  const siblings = `${undecided} ${undecided === 1 ? "guess was" : "guesses were"} rejected, another one at the same place may still pass`;
  if (!examined)
    return undecided ? `No level is decided yet: ${siblings}.` : "Nothing is judged yet.";
  const share = (/** @type {number} */ part) => `${Math.round(100 * part)} %`;
  const [kept, failed] = twoShares(accepted, examined);
  const rates = `${accepted} of ${examined} examined ${isTree ? "levels " : ""}were accepted: acceptance rate ${kept}, rejection rate ${failed}.`;
  const further = undecided ? ` A further level is open: ${siblings}.` : "";
  if (isTree)
    return `${rates}${further} Of all ${drafted} drafted tokens ${share(accepted / drafted)} were used; of each level at most one can be.`;
  if (drafted === examined) return rates;
  const open = drafted - examined - unreached - behind;
  const never = unreached
    ? `${unreached} more ${unreached === 1 ? "was" : "were"} never examined; `
    : "";
  const after = behind
    ? `${behind} more came after a rejected guess and ${behind === 1 ? "does" : "do"} not count; `
    : "";
  const waiting = open ? `${open} ${open === 1 ? "is" : "are"} not judged yet; ` : "";
  return `${rates} ${never}${after}${waiting}of all ${drafted} drafted ${share(accepted / drafted)} were used.`;
}

// Write two shares as percentages that add up to 100 %. Write 0 % or 100 % only if the share is
// exactly that.
/**
 * @param {number} accepted
 * @param {number} examined
 */
function twoShares(accepted, examined) {
  const percent = Math.round((100 * accepted) / examined);
  if (percent === 100 && accepted < examined) return ["over 99 %", "under 1 %"];
  if (percent === 0 && accepted > 0) return ["under 1 %", "over 99 %"];
  return [`${percent} %`, `${100 - percent} %`];
}

export class RunningRates {
  /** @param {HTMLElement} box */
  constructor(box) {
    this.words = element("p");
    this.curve = /** @type {SVGElement} */ (drawing(CURVE));
    const side = element("div", "redraw-side");
    const key = keyLine([
      ["i", "line", "acceptance rate"],
      ["i", "line floor", "rejection rate"],
    ]);
    key.append(element("span", "", "from 0 to 1, over the examined levels so far"));
    side.append(this.curve, key);
    box.replaceChildren(this.words, side);
    this.show([], false);
  }

  /**
   * @param {Judged[]} rounds what is judged of each round at this moment
   * @param {boolean} isTree
   * @param {boolean} [isThought] true if the debugger shows a changed draw, which is not in these rates
   */
  show(rounds, isTree, isThought = false) {
    const found = runningRates(rounds);
    const last = Math.max(1, found.rates.length - 1);
    drawCurve(
      this.curve,
      found.rates.map((rate, at) => ({ at: at / last, distance: rate, floor: 1 - rate })),
    );
    setText(this.words, `${isThought ? "As recorded: " : ""}${ratesWords(found, isTree)}`);
  }
}
