// Exactness, shown: the place under the cursor drawn anew a thousand times, with what verification
// computed.

import { element } from "./dom.js";
import { redrawPlan } from "./redraw.js";
import { RedrawView } from "./redraw_view.js";
import { tokenLabel } from "./token_label.js";

export class RedrawCard extends RedrawView {
  // `onExample` shows a run in which something is drawn, null where there is none at hand.
  /**
   * @param {HTMLElement} box with the drawing of the curve
   * @param {(() => void) | null} [onExample]
   */
  constructor(box, onExample = null) {
    super(box);
    this.example = element("button", "primary", "Show it at temperature 0.7, in a recording");
    this.example.type = "button";
    this.example.addEventListener("click", () => onExample?.());
    this.hasExample = onExample !== null;
    this.go.after(this.example);
    /** @type {any} the place: its run, round and node */
    this.place = {};
    this.clear();
  }

  clear() {
    this.show({ trace: null, round: null, node: null, words: "Once a run has ended, each position of its text can be drawn anew." });
  }

  // The place to draw anew: that of a stop of `round`. `words` say why there is none.
  /** @param {{ trace: Trace | null, round: Round | null, node: number | null, words?: string }} place */
  show(place) {
    const { trace, round, node, words = "" } = place;
    const was = this.place;
    if (was.round === round && was.node === node && was.words === words) return;
    this.go.hidden = this.hasExample && Boolean(round?.isGreedy);
    this.example.hidden = !this.go.hidden;
    const parent = round && node !== null ? round.parentOf(node) : undefined;
    this.place = { ...place, words };
    const plan = round && !words ? redrawPlan(round, parent) : null;
    if (!trace || !round || !plan) return this.setSubject(null, words || whyNot(place));
    const label = (/** @type {number | null} */ id) => (id === null ? "" : tokenLabel(trace.text(id)));
    const own = plan.guesses.length ? "recovered" : (round.extraKind ?? "plain");
    const seed = (round.record.i * 64 + Number(parent) + 2) * 16;
    this.setSubject({ plan, seed, label, own, isLossy: plan.kind === "typical" }, `${whereWords(place)} ${howWords(plan)}`);
  }
}

/** @param {any} place */
function whereWords({ trace, round, node }) {
  return `Round ${round.record.i + 1}, the place of ${tokenLabel(trace.text(round.tokenId(node)))}.`;
}

/** @param {RedrawPlan} plan */
function howWords({ kind, guesses }) {
  if (!guesses.length) return "Nothing was drafted here: the target draws from p itself, each time.";
  if (kind === "typical") return "Each time the same guesses meet the threshold of typical acceptance; where none passes, the target draws from p. This rule is lossy: the bars need not come out as p.";
  const many = guesses.length > 1 ? ` Up to ${guesses.length} guesses are tried in turn.` : "";
  if (kind === "deterministic") return `Each time the guess that the drafter picked is kept with probability p, else the target draws from p without it.${many} What comes out is p, whatever was picked.`;
  return `Each time a guess is drawn from q, kept with probability min(1, p/q), else replaced from what is left of p.${many} What comes out is p, however bad the guesses are.`;
}

/** @param {any} place */
function whyNot({ trace, round, node }) {
  if (round?.isGreedy) return `At temperature 0 nothing is drawn, so there is nothing to redraw: p is all on one token, the target’s most probable one${bestWords(trace, round, node)}. A guess passes only if it is that token, so the text is the target’s own, token for token.`;
  return "This place was never examined, so the record keeps no distributions of it.";
}

// Which one that is here, where the record keeps it.
/**
 * @param {Trace} trace
 * @param {Round} round
 * @param {number | null} node
 */
function bestWords(trace, round, node) {
  const parent = node === null ? undefined : round.parentOf(node);
  const position = round.record.positions.find((each) => each.parent === parent);
  const at = position ? position.p.indexOf(1) : -1;
  return position && at >= 0 ? ` (here ${tokenLabel(trace.text(position.id[at]))})` : "";
}
