// The parameters of the address that describe the settings of a race.

import { addressSettings } from "./settings.js";

export const OPTION = "option-"; // prefix of the parameters for options that only one method has
export const OF_PROMPT = ["task", "prompt", "text"];

/** @param {string} name */
function isOfSetting(name) {
  return (
    name.startsWith(OPTION) ||
    OF_PROMPT.includes(name) ||
    addressSettings().some(({ key }) => key === name)
  );
}

// Replace the race settings in the parameters `given` by those in `query`. Parameters of `query`
// that are no settings are ignored.
/**
 * @param {URLSearchParams} given
 * @param {URLSearchParams} query
 */
export function putSetting(given, query) {
  for (const name of [...given.keys()]) if (isOfSetting(name)) given.delete(name);
  for (const [name, text] of query) if (isOfSetting(name)) given.set(name, text);
}
