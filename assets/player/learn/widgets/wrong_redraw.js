// A rule that looks right and is wrong: after a rejection the token comes from p itself, not from what is
// left of it. Only lessons draw so; the decoder never does.

import { Redraw } from "../../shared/redraw.js";

export class RedrawFromTarget extends Redraw {
  /**
   * @param {RedrawPlan} plan
   * @param {number} seed
   */
  constructor(plan, seed) {
    super(plan, seed);
    this.first = plan.p;
  }
}

// The token that then comes too often by most, as a bin of the plan: min(p, q) of the time as a guess that is
// kept, and with p once more after each rejection.
/** @param {RedrawPlan} plan */
export function doubledBin({ p, q, shared }) {
  const common = p.slice(0, -1).map((each, bin) => Math.min(each, q[bin]));
  const kept = common.reduce((sum, each) => sum + each, shared);
  const excess = common.map((each, bin) => each - kept * p[bin]);
  return excess.indexOf(Math.max(...excess));
}
