// A rule that looks right and is wrong: after a rejection it draws the token from p itself instead
// of the residual. Only lessons use it; the decoder never does.

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

// Return the index of the token that this wrong rule draws too often by the largest amount. The
// rule writes a token with probability min(p, q) as an accepted draft. After a rejection it draws
// from p, so the token gets a second chance.
/** @param {RedrawPlan} plan */
export function doubledBin({ p, q, shared }) {
  const common = p.slice(0, -1).map((each, bin) => Math.min(each, q[bin]));
  const kept = common.reduce((sum, each) => sum + each, shared);
  const excess = common.map((each, bin) => each - kept * p[bin]);
  return excess.indexOf(Math.max(...excess));
}
