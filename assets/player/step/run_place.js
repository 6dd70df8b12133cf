// Where the debugger stands, as the browser's address and history have it: an entry for each run that was
// opened, in which every move replaces the one before.

import { KEPT, LIVE } from "./kept_runs.js";
import { RACE } from "./run_menu.js";
import { StepAddress } from "./step_address.js";

const DRAWN_MILLISECONDS = 150;

export class RunPlace {
  // `name()`: the address's name of the run at hand, undefined where it has none; `recipe()`: how it can be
  // made again.
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

  // What the address asks for: a run and a moment of it, or what is usual; `isGone`: a live run that
  // went with its page.
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

  // What a link cannot do for others.
  get linkLimit() {
    const { trace = "", recipe } = this.moment;
    if (trace === LIVE) return "of a run that goes on: it can be sent once it has ended";
    return trace.startsWith(KEPT) && !recipe ? "for this browser only: Save the run to send it" : "";
  }

  // Whether the address is of the run at hand.
  get isNamed() {
    return (this.read().trace ?? "") === (this.name() ?? "");
  }

  // By Back: how far down the page stood is only right again once its run is drawn.
  scrollBack() {
    const top = window.history.state?.scroll;
    if (top !== undefined) window.setTimeout(() => window.scrollTo(0, top), DRAWN_MILLISECONDS);
  }

  write() {
    const { trace } = this.page;
    if (trace?.rounds.length || trace?.isLive) this.address.write(this.moment);
    else this.forget();
  }

  // The run at hand takes the place of the one that is shown: Back leads to that one again.
  /** @param {{ round: number, at?: number } | null} wanted */
  enter(wanted) {
    if (!this.page.isShown || !this.page.trace || this.isNamed) return;
    this.address.push({ ...this.moment, round: wanted?.round ?? 0, at: wanted?.at ?? 0 });
  }

  // What was to be written holds no more.
  forget() {
    this.address.forget();
  }
}
