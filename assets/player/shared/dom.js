// Elements: made with textContent only, found by their data-ref. No text of a model or a person is ever
// read as markup.

export function element(tag, className = "", text = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== "") made.textContent = text;
  return made;
}

export function option(value, title) {
  const made = element("option", "", title);
  made.value = value;
  return made;
}

export function references(root) {
  const refs = {};
  for (const each of root.querySelectorAll("[data-ref]")) refs[each.dataset.ref] = each;
  return refs;
}

export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

// Bold and plain parts in turn: setParts(p, "round ", ["32"], " of 41") makes 32 bold.
export function setParts(target, ...parts) {
  target.replaceChildren(
    ...parts.map((part) => (Array.isArray(part) ? element("b", "", part[0]) : part)),
  );
}
