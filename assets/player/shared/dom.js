// Functions that make elements and find them by their attribute data-ref. They set `textContent`
// only, so no text of a model or a user is ever parsed as HTML.

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 */
export function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = text;
  return made;
}

/**
 * @param {string} value
 * @param {string} title
 */
export function option(value, title) {
  const made = element("option", "", title);
  made.value = value;
  return made;
}

// Return a MathML or SVG element from markup. Use it only for markup in our own files, never for
// text of a model or a user.
/** @param {string} ours */
export function drawing(ours) {
  const { body } = new DOMParser().parseFromString(ours, "text/html");
  return /** @type {Element} */ (
    document.importNode(/** @type {Element} */ (body.firstElementChild), true)
  );
}

/** @param {HTMLElement} root */
export function references(root) {
  /** @type {Refs} */
  const refs = {};
  for (const each of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-ref]")))
    refs[each.dataset.ref ?? ""] = each;
  return refs;
}

const MARKED_MILLISECONDS = 1600;

// Scroll to another card on the page, highlight it briefly, and focus its button.
/**
 * @param {HTMLElement} card
 * @param {HTMLElement} button
 */
export function leadTo(card, button) {
  card.scrollIntoView({ block: "center" });
  button.focus({ preventScroll: true });
  card.classList.add("is-called");
  window.setTimeout(() => card.classList.remove("is-called"), MARKED_MILLISECONDS);
}

/**
 * @param {HTMLElement} target
 * @param {string} text
 */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

// Set a text with bold parts. A part in an array is bold: setParts(p, "round ", ["32"], " of 41")
// makes 32 bold.
/**
 * @param {HTMLElement} target
 * @param {...(string | [string])} parts
 */
export function setParts(target, ...parts) {
  target.replaceChildren(
    ...parts.map((part) => (Array.isArray(part) ? element("b", "", part[0]) : part)),
  );
}

// Call `onSelect` with the node's number when the user clicks an element that has the attribute
// data-node. The listener is on the box, because the content of the box is replaced often.
/**
 * @param {HTMLElement} box
 * @param {(node: number) => void} onSelect
 */
export function onNode(box, onSelect) {
  box.addEventListener("click", ({ target }) => {
    const chosen =
      target instanceof Element
        ? /** @type {HTMLElement | null} */ (target.closest("[data-node]"))
        : null;
    if (chosen) onSelect(Number(chosen.dataset.node));
  });
}

// Return the chosen file, or undefined. The input is emptied, so that the user can choose the same
// file again.
/** @param {HTMLInputElement} input */
export function takeFile(input) {
  const file = input.files?.[0];
  input.value = "";
  return file;
}

// Enable the button that can be used now, `begin` or `end`, and disable the other one. If the
// disabled button had the keyboard focus, move the focus to the enabled one.
/**
 * @param {HTMLButtonElement} begin
 * @param {HTMLButtonElement} end
 * @param {boolean} isBusy
 */
export function giveTurn(begin, end, isBusy) {
  const [next, last] = isBusy ? [end, begin] : [begin, end];
  next.disabled = false;
  if (last.matches(":focus-visible")) next.focus({ preventScroll: true });
  last.disabled = true;
}
