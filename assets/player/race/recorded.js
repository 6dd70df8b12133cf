// Finds out whether a recording has the settings that are in the form.

const NUMBERS = /** @type {const} */ (["draft_length", "temperature", "seed", "max_new_tokens"]);

// Return whether the recorded run has the same prompt, method and numbers as the form.
/**
 * @param {Trace} trace
 * @param {Record<string, any>} order
 */
export function isOf({ header, main }, order) {
  if (!header || header.prompt !== order.prompt || main.config.method !== order.method)
    return false;
  return NUMBERS.every((name) => main.config[name] === Number(order[name]));
}

// Say which hardware and program made a recording, or "" if the file does not say.
/** @param {{ made_by?: string, processor?: string } | null} header */
export function madeWords(header) {
  if (!header?.made_by) return "";
  return `; made by ${header.made_by}${header.processor ? ` on ${header.processor}` : ""}`;
}
