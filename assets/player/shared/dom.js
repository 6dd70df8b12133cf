// Elements: made with textContent only, found by their data-ref. No text of a model or a person is ever
// read as markup.

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

// An element of MathML or SVG from markup of our own files: never from a text of a model or a person.
/** @param {string} ours */
export function drawing(ours) {
  const { body } = new DOMParser().parseFromString(ours, "text/html");
  return /** @type {Element} */ (document.importNode(/** @type {Element} */ (body.firstElementChild), true));
}

/** @param {HTMLElement} root */
export function references(root) {
  /** @type {Refs} */
  const refs = {};
  for (const each of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-ref]"))) refs[each.dataset.ref ?? ""] = each;
  return refs;
}

const MARKED_MILLISECONDS = 1600;

// A card elsewhere on the page comes into sight and is marked for a moment, with the focus on its button.
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

// Bold and plain parts in turn: setParts(p, "round ", ["32"], " of 41") makes 32 bold.
/**
 * @param {HTMLElement} target
 * @param {...(string | [string])} parts
 */
export function setParts(target, ...parts) {
  target.replaceChildren(
    ...parts.map((part) => (Array.isArray(part) ? element("b", "", part[0]) : part)),
  );
}

// A press on what carries the number of a node, in a box whose content comes and goes.
/**
 * @param {HTMLElement} box
 * @param {(node: number) => void} onSelect
 */
export function onNode(box, onSelect) {
  box.addEventListener("click", ({ target }) => {
    const chosen = target instanceof Element ? /** @type {HTMLElement | null} */ (target.closest("[data-node]")) : null;
    if (chosen) onSelect(Number(chosen.dataset.node));
  });
}

// The file that was chosen; the same one can be chosen again. Undefined where none was.
/** @param {HTMLInputElement} input */
export function takeFile(input) {
  const file = input.files?.[0];
  input.value = "";
  return file;
}

// Of two buttons, one to begin and one to end, the one that has a use now. A disabled button loses the
// focus: whoever works by keys goes on at the other one.
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
