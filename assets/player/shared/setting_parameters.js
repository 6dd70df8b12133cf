// The parameters of a race's setting in an address, whatever else stands in it.

import { addressSettings } from "./settings.js";

export const OPTION = "option-"; // before the name of an option that only one method has
export const OF_PROMPT = ["task", "prompt", "text"];

/** @param {string} name */
function isOfSetting(name) {
  return name.startsWith(OPTION) || OF_PROMPT.includes(name) || addressSettings().some(({ key }) => key === name);
}

// Another race's setting in the place of the one that `given` has; what else `query` has stays out.
/**
 * @param {URLSearchParams} given
 * @param {URLSearchParams} query
 */
export function putSetting(given, query) {
  for (const name of [...given.keys()]) if (isOfSetting(name)) given.delete(name);
  for (const [name, text] of query) if (isOfSetting(name)) given.set(name, text);
}
