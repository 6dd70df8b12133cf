// "Fork here": what to change before the real decoder goes on from the round under the cursor.
// Knows the form's fields and the draws that "what if" holds; the debugger sends the order.

import { option, setText } from "../shared/dom.js";
import { probability } from "../shared/probability.js";
import { tokenLabel } from "../shared/tooltip.js";
import { Refusal } from "./refusal.js";

const SAME = ""; // of the menu: the method of the run

export class ForkForm {
  constructor(refs, methods, whatIf, onFork) {
    this.refs = refs;
    this.whatIf = whatIf;
    const { forkLength, forkTemperature, forkMethod } = refs;
    this.refusal = new Refusal(refs.forkError, { draft_length: forkLength, temperature: forkTemperature, method: forkMethod });
    refs.forkMethod.append(option(SAME, "as in this run"), ...methods.map(({ name, title }) => option(name, title)));
    refs.forkGo.addEventListener("click", () => onFork(this.order));
    for (const name of ["forkLength", "forkTemperature"]) {
      refs[name].addEventListener("keydown", (event) => event.key === "Enter" && onFork(this.order));
    }
  }

  get order() {
    const { forkLength, forkTemperature, forkMethod } = this.refs;
    const changes = { draft_length: forkLength.value, temperature: forkTemperature.value, method: forkMethod.value };
    const given = Object.fromEntries(Object.entries(changes).filter(([, text]) => text.trim() !== ""));
    return { round: this.round, forced: this.whatIf.forced, changes: given };
  }

  // `ahead`: how many other runs go first.
  wait(ahead) {
    setText(this.refs.forkStop, ahead ? "Waiting for another run to end · stop" : "Stop the fork");
  }

  draw(trace, cursor, isForking) {
    const { refs, whatIf } = this;
    this.round = cursor.round;
    refs.fork.hidden = trace.isLive && !isForking;
    refs.forkGo.hidden = isForking;
    if (!isForking) this.wait(0);
    refs.forkStop.hidden = !isForking;
    const { draft_length: length, temperature } = trace.configOf(cursor.round);
    refs.forkLength.placeholder = String(length);
    refs.forkTemperature.placeholder = String(temperature);
    setText(refs.forkPlace, `before round ${cursor.round + 1}`);
    const draws = Object.entries(whatIf.forced).map(([node, u]) => {
      const text = tokenLabel(trace.text(cursor.current.tokenId(Number(node))));
      return `u of ${text} is forced to ${probability(u)}`;
    });
    setText(refs.forkDraws, draws.join("; "));
    refs.forkDraws.hidden = !draws.length;
  }
}
