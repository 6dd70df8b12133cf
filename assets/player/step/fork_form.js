// The form "Fork here", which collects the settings to change before the real decoder continues
// from the selected round. It reads its own fields and the draws that the user changed under "What
// if". The debugger's page sends the request.

import { option, setText } from "../shared/dom.js";
import { whole } from "../shared/number_words.js";
import { controlsOf } from "../shared/setting_fields.js";
import { tokenLabel } from "../shared/token_label.js";
import { FieldErrors } from "../shared/field_errors.js";

const SAME = ""; // menu value: keep the method of the run

export class ForkForm {
  /**
   * @param {Refs} refs
   * @param {MethodOffer[]} methods
   * @param {any} whatIf
   * @param {(order: object) => void} onFork
   */
  constructor(refs, methods, whatIf, onFork) {
    this.refs = refs;
    this.whatIf = whatIf;
    this.controls = controlsOf(refs.fork);
    this.errors = new FieldErrors(refs.fork, this.controls);
    refs.forkMethod.append(
      option(SAME, "as in this run"),
      ...methods.map(({ name, title }) => option(name, title)),
    );
    refs.forkGo.addEventListener("click", () => onFork(this.order));
    for (const field of Object.values(this.controls)) {
      field.addEventListener(
        "keydown",
        (/** @type {any} */ event) =>
          event.key === "Enter" && field !== refs.forkMethod && onFork(this.order),
      );
    }
  }

  get order() {
    const changes = Object.entries(this.controls).map(([name, { value }]) => [name, value]);
    const given = Object.fromEntries(changes.filter(([, text]) => text.trim() !== ""));
    return { round: this.round, forced: this.whatIf.forced, changes: given };
  }

  // Show that the fork waits. `ahead` is the number of runs before it in the server's queue.
  /** @param {number} ahead */
  wait(ahead) {
    setText(this.refs.forkStop, ahead ? "Waiting for another run to end · stop" : "Stop the fork");
  }

  /**
   * @param {Trace} trace
   * @param {StepCursor} cursor
   * @param {boolean} isForking
   */
  draw(trace, cursor, isForking) {
    const { refs, whatIf } = this;
    this.round = cursor.round;
    refs.fork.hidden = trace.isLive && !isForking;
    refs.forkGo.hidden = isForking;
    if (!isForking) this.wait(0);
    refs.forkStop.hidden = !isForking;
    const config = trace.configOf(cursor.round);
    for (const [name, field] of Object.entries(this.controls))
      if (field !== refs.forkMethod) field.placeholder = String(/** @type {any} */ (config)[name]);
    setText(refs.forkPlace, `before round ${cursor.round + 1}`);
    const draws = Object.entries(whatIf.forced).map(([node, u]) => {
      const text = tokenLabel(
        trace.text(/** @type {Round} */ (cursor.current).tokenId(Number(node))),
      );
      return `u of ${text} is forced to ${whole(u)}`;
    });
    setText(refs.forkDraws, draws.join("; "));
    refs.forkDraws.hidden = !draws.length;
  }
}
