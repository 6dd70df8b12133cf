// The address of a moment: ?view=step&trace=…&round=12&pos=3&axis=token, followed by the recipe of
// the run. Rounds and moments count from 1. A report holds only one run. It uses the same
// parameters, but after the # instead of the ?.

import { setPage } from "../shared/page_parameter.js";
import { OF_A_RECIPE, readRecipe, writeRecipe } from "./recipe.js";

const WRITE_MILLISECONDS = 250; // browsers reject too frequent changes of the address
export const OF_A_MOMENT = ["trace", "round", "pos", "axis", ...OF_A_RECIPE]; // parameters of the address that belong to a moment

export class StepAddress {
  // `part` is the part of the address to use: "search" or "hash".
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

  // Read the recipe of a run that this browser does not have. See readRecipe in recipe.js.
  readRecipe() {
    return readRecipe(this.given(window.location));
  }

  // Return the address of a moment. `moment` is { trace, round, at, axis, recipe } with numbers
  // from 0; `recipe` is null if the run has none.
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
    if (this.unwritten)
      window.history.replaceState(window.history.state, "", this.link(this.unwritten));
    this.forget();
  }

  // Add a history entry. The entry before it stores the scroll position of the page.
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

// Convert a number of the address, which counts from 1, to one that counts from 0. Return null for
// other text.
/** @param {string | null} text */
function whole(text) {
  const number = Number(text);
  return text !== null && Number.isInteger(number) && number >= 1 ? number - 1 : null;
}
