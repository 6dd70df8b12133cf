// The parameter of the address that names the shown page.

const PARAMETER = "view"; // the name "page" is not possible, because Gradio uses it

// Return the page's name, or null if the address has none.
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

// Return a link to a page without any other parameter.
/** @param {string} name */
export function pageLink(name) {
  return `?${PARAMETER}=${name}`;
}
