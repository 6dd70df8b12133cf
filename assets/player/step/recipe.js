// A recipe, from which another browser can produce the same run again: the name of a recording or
// the settings of a race, then each fork. It is written into the parameters of an address. For
// example, of=race&fork=6_k-2_u3-0.25 is a race with the settings in the address, forked before
// round 6 with K = 2 and the draw of node 3 forced to 0.25.

import { putSetting } from "../shared/setting_parameters.js";
import { addressSettings, brief } from "../shared/settings.js";

export const OF_A_RECIPE = ["of", "fork"]; // parameters of the address that belong to a recipe
export const OF_A_RACE = "race"; // value of "of" for a race instead of a recording
const MOST_FORKS = 8;
const ROUND = /^[1-9]\d{0,6}$/;
const DRAW = /^u(0|[1-9]\d{0,2})$/;
const UNIFORM = /^0(\.\d+)?$|^\d(\.\d+)?e-\d+$/; // a number from 0 to 1 as JavaScript prints it

// Return the recipe of a fork. Return null if its parent has no recipe or the link already has the
// largest number of forks.
/**
 * @param {Recipe | null | undefined} recipe
 * @param {ForkOrder} order
 * @returns {Recipe | null}
 */
export function forkedRecipe(recipe, { round, changes, forced }) {
  if (!recipe || recipe.forks.length === MOST_FORKS) return null;
  return { ...recipe, forks: [...recipe.forks, { round, changes, forced }] };
}

// Write a recipe, with the settings of its race, into the parameters of an address.
/**
 * @param {URLSearchParams} given
 * @param {Recipe} recipe
 */
export function writeRecipe(given, { of, setting, forks }) {
  given.set("of", of);
  if (of === OF_A_RACE) putSetting(given, new URLSearchParams(setting));
  for (const fork of forks) given.append("fork", forkText(fork));
}

// Read a recipe from the parameters of an address. If the address has no recipe, `recipe` is null.
// If the recipe cannot be read, `recipe` is also null, and `problem` says why.
/**
 * @param {URLSearchParams} given
 * @returns {{ recipe: Recipe | null, problem: string }}
 */
export function readRecipe(given) {
  const of = given.get("of");
  if (of === null) return { recipe: null, problem: "" };
  const texts = given.getAll("fork");
  if (texts.length > MOST_FORKS)
    return {
      recipe: null,
      problem: `fork may stand in a link at most ${MOST_FORKS} times, got ${texts.length}`,
    };
  /** @type {ForkOrder[]} */
  const forks = [];
  for (const text of texts) {
    const fork = readFork(text);
    if (!fork)
      return {
        recipe: null,
        problem: `fork must be a round and its changes, such as 6_k-2_u3-0.25, got “${brief(text)}”`,
      };
    forks.push(fork);
  }
  return { recipe: { of, setting: given.toString(), forks }, problem: "" };
}

/** @param {ForkOrder} fork */
function forkText({ round, changes, forced }) {
  const keys = Object.fromEntries(addressSettings().map(({ name, key }) => [name, key]));
  const changed = Object.entries(changes).map(([name, text]) => `${keys[name]}-${text.trim()}`);
  const draws = Object.entries(forced).map(([node, u]) => `u${node}-${u}`);
  return [round + 1, ...changed, ...draws].join("_");
}

// Read one fork from its text, or return null if the text has the wrong form. This function checks
// only the form; the server checks whether the values are allowed.
/**
 * @param {string} text
 * @returns {ForkOrder | null}
 */
function readFork(text) {
  const [round, ...parts] = text.split("_");
  if (!ROUND.test(round)) return null;
  /** @type {ForkOrder} */
  const fork = { round: Number(round) - 1, changes: {}, forced: {} };
  for (const part of parts) {
    const [key, ...rest] = part.split("-");
    const value = rest.join("-");
    const node = DRAW.exec(key)?.[1];
    const name = addressSettings().find((each) => each.key === key)?.name;
    if (!value || !(node || name)) return null;
    if (node && UNIFORM.test(value) && !(node in fork.forced)) fork.forced[node] = Number(value);
    else if (name && !(name in fork.changes)) fork.changes[name] = value;
    else return null;
  }
  return fork;
}
