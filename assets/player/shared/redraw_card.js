// Exactness, shown: the place under the cursor drawn anew a thousand times, with what verification
// computed.

import { redrawPlan } from "./redraw.js";
import { RedrawView } from "./redraw_view.js";
import { tokenLabel } from "./token_label.js";

export class RedrawCard extends RedrawView {
  /** @param {HTMLElement} box with the drawing of the curve */
  constructor(box) {
    super(box);
    /** @type {any} the place: its run, round and node */
    this.place = {};
    this.clear();
  }

  clear() {
    this.show({ trace: null, round: null, node: null, words: "Race first: then each position of the text can be drawn anew." });
  }

  // The place to draw anew: that of a stop of `round`. `words` say why there is none.
  /** @param {{ trace: Trace | null, round: Round | null, node: number | null, words?: string }} place */
  show(place) {
    const { trace, round, node, words = "" } = place;
    const was = this.place;
    if (was.round === round && was.node === node && was.words === words) return;
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
function whyNot({ round }) {
  if (round?.isGreedy) return "At temperature 0 nothing is drawn: a thousand times over, the target’s most probable token would stand here.";
  return "This place was never examined, so the record keeps no distributions of it.";
}
