// A moment's address: ?view=step&trace=…&round=12&pos=3&axis=token, and how its run can be made again.
// Rounds and moments count from 1. A report, which holds one run and no other page, has the same after the #.

import { setPage } from "../shared/page_parameter.js";
import { OF_A_RECIPE, readRecipe, writeRecipe } from "./recipe.js";

const WRITE_MILLISECONDS = 250; // browsers refuse an address that changes too often
export const OF_A_MOMENT = ["trace", "round", "pos", "axis", ...OF_A_RECIPE]; // parameters

export class StepAddress {
  // `part` of the address: "search" or "hash".
  constructor(part = "search") {
    this.part = part;
  }

  read() {
    const given = this.given(window.location);
    return {
      trace: given.get("trace"),
      round: whole(given.get("round")),
      at: whole(given.get("pos")),
      axis: given.get("axis"),
    };
  }

  // How the run can be made again where it is not at hand: see readRecipe.
  readRecipe() {
    return readRecipe(this.given(window.location));
  }

  // `moment`: { trace, round, at, axis }, from 0, and the run's recipe, null for none.
  /** @param {StepPlace} moment */
  link({ trace, round, at, axis, recipe = null }) {
    const url = new URL(window.location.href);
    const given = this.given(url);
    for (const name of OF_A_MOMENT) given.delete(name);
    if (this.part === "search") setPage(given, "step");
    if (trace) given.set("trace", trace);
    given.set("round", String(round + 1));
    given.set("pos", String(at + 1));
    if (axis !== "round") given.set("axis", axis);
    if (recipe && recipe.of !== trace) writeRecipe(given, recipe);
    if (this.part === "hash") url.hash = given.toString();
    else url.search = given.toString();
    return url.href;
  }

  /** @param {URL | Location} url */
  given(url) {
    return new URLSearchParams((this.part === "hash" ? url.hash : url.search).slice(1));
  }

  /** @param {StepPlace} moment */
  write(moment) {
    this.forget();
    this.unwritten = moment;
    this.timer = window.setTimeout(() => this.flush(), WRITE_MILLISECONDS);
  }

  flush() {
    if (this.unwritten) window.history.replaceState(window.history.state, "", this.link(this.unwritten));
    this.forget();
  }

  // A new entry of the history; the one before it remembers how far down the page stood.
  /** @param {StepPlace} moment */
  push(moment) {
    this.flush();
    window.history.replaceState({ ...window.history.state, scroll: window.scrollY }, "");
    window.history.pushState(null, "", this.link(moment));
  }

  forget() {
    window.clearTimeout(this.timer);
    this.unwritten = null;
  }
}

// From the address's count to ours; null where it is no number of it.
/** @param {string | null} text */
function whole(text) {
  const number = Number(text);
  return text !== null && Number.isInteger(number) && number >= 1 ? number - 1 : null;
}
