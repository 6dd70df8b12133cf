// The debugger's current position in the browser's address and history. Each opened run has one
// history entry, and every move inside the run replaces that entry.

import { KEPT, LIVE } from "./kept_runs.js";
import { RACE } from "./run_menu.js";
import { StepAddress } from "./step_address.js";

const DRAWN_MILLISECONDS = 150;

export class RunPlace {
  // `name()` returns the name that the current run has in the address, or undefined if it has none.
  // `recipe()` returns the recipe with which another browser can make the same run again.
  /**
   * @param {any} page
   * @param {{ name: () => string | undefined, recipe: () => Recipe | null }} of
   */
  constructor(page, { name, recipe }) {
    this.page = page;
    this.name = name;
    this.recipe = recipe;
    this.address = new StepAddress();
  }

  read() {
    return this.address.read();
  }

  readRecipe() {
    return this.address.readRecipe();
  }

  // Return the run and the moment that the address names. If it names none, return the defaults.
  // `isGone` is true if the address names a live run that no longer exists, because its page was
  // closed.
  /**
   * @param {boolean} hasRace
   * @param {{ name: string, moment: { round: number, at: number } }} usual
   */
  wish(hasRace, usual) {
    const { trace, round, at, axis } = this.read();
    const isGone = trace === LIVE && !hasRace;
    const isRace = hasRace && (trace ?? LIVE) === LIVE;
    const named = isGone ? null : trace;
    const asked = round === null || isGone ? null : { round, at: at ?? 0 };
    const name = isRace ? RACE : (named ?? usual.name);
    return { name, moment: asked ?? (isRace || named ? null : usual.moment), axis, isGone };
  }

  get moment() {
    const { cursor, axis } = this.page;
    const trace = this.name();
    const recipe = trace === LIVE ? null : this.recipe();
    return { trace, round: cursor.round, at: cursor.at, axis: axis.name, recipe };
  }

  get link() {
    return this.address.link(this.moment);
  }

  // Return why the current link does not work for other people, or "" if it does.
  get linkLimit() {
    const { trace = "", recipe } = this.moment;
    if (trace === LIVE) return "of a run that goes on: it can be sent once it has ended";
    return trace.startsWith(KEPT) && !recipe
      ? "for this browser only: Save the run to send it"
      : "";
  }

  // Return whether the address names the current run.
  get isNamed() {
    return (this.read().trace ?? "") === (this.name() ?? "");
  }

  // After the user pressed Back, restore the scroll position. Wait until the run is drawn, because
  // the page has its full height only then.
  scrollBack() {
    const top = window.history.state?.scroll;
    if (top !== undefined) window.setTimeout(() => window.scrollTo(0, top), DRAWN_MILLISECONDS);
  }

  write() {
    const { trace } = this.page;
    if (trace?.rounds.length || trace?.isLive) this.address.write(this.moment);
    else this.forget();
  }

  // Add a history entry for the current run, so that Back returns to the previous run.
  /** @param {{ round: number, at?: number } | null} wanted */
  enter(wanted) {
    if (!this.page.isShown || !this.page.trace || this.isNamed) return;
    this.address.push({ ...this.moment, round: wanted?.round ?? 0, at: wanted?.at ?? 0 });
  }

  // Cancel a delayed write of the address.
  forget() {
    this.address.forget();
  }
}
