// The parameter of the address that names the page which is shown.

const PARAMETER = "view"; // Gradio keeps "page" for itself

// The name of the page, null where the address names none.
/** @param {URLSearchParams} parameters */
export function pageIn(parameters) {
  return parameters.get(PARAMETER);
}

/**
 * @param {URLSearchParams} parameters
 * @param {string} name
 */
export function setPage(parameters, name) {
  parameters.set(PARAMETER, name);
}

// A link to a page, without anything else.
/** @param {string} name */
export function pageLink(name) {
  return `?${PARAMETER}=${name}`;
}
