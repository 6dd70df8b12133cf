// A recording beside the form.

const NUMBERS = /** @type {const} */ (["draft_length", "temperature", "seed", "max_new_tokens"]);

// Whether the form, as it stands, asks for this run: the question, the method and its numbers.
/**
 * @param {Trace} trace
 * @param {Record<string, any>} order
 */
export function isOf({ header, main }, order) {
  if (!header || header.prompt !== order.prompt || main.config.method !== order.method) return false;
  return NUMBERS.every((name) => main.config[name] === Number(order[name]));
}
