// A decimal comma, as in 0,7, becomes a point where it is typed, and whole numbers lose their thousands, as in 4,096,
// once they are: no field, rule or address knows another way.

const IN_THOUSANDS = /^\d{1,3}(,\d{3})+(\.\d*)?$/;
const WITH_COMMA = /^\s*[+-]?\d*,\d*\s*$/;

// A field for decimals says so in its inputmode; one that takes thousands too (1,200) leaves its commas to the
// server. Heard before the fields' own listeners.
/** @param {HTMLElement} root */
export function takeCommas(root) {
  root.addEventListener("input", ({ target: field }) => {
    if (!(field instanceof HTMLInputElement) || field.inputMode !== "decimal" || field.dataset.thousands !== undefined) return;
    const text = withPoint(field.value);
    if (text === field.value) return;
    const { selectionStart } = field;
    field.value = text;
    field.setSelectionRange(selectionStart, selectionStart);
  }, true);
  root.addEventListener("change", takeThousands, true);
  root.addEventListener("keydown", (event) => event.key === "Enter" && takeThousands(event), true);
}

/** @param {Event} event */
function takeThousands({ target: field }) {
  if (!(field instanceof HTMLInputElement) || field.inputMode !== "numeric" || !IN_THOUSANDS.test(field.value)) return;
  field.value = withoutThousands(field.value);
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

/** @param {string} text */
export function withPoint(text) {
  return WITH_COMMA.test(text) ? text.replace(",", ".") : text;
}

// 4,000 is four thousand; of any other text, such as 0,5, the commas stay, for a rule to refuse.
/** @param {string} text */
export function withoutThousands(text) {
  const plain = text.replaceAll(" ", "");
  return IN_THOUSANDS.test(plain) ? plain.replaceAll(",", "") : plain;
}
