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
