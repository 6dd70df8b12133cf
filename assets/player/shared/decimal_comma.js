// Changes a typed decimal comma, as in 0,7, to a point at once. When the user finishes a whole
// number, as in 4,096, its thousands separators are removed. All other code therefore sees only one
// notation.

const IN_THOUSANDS = /^\d{1,3}(,\d{3})+(\.\d*)?$/;
const WITH_COMMA = /^\s*[+-]?\d*,\d*\s*$/;

// A field for decimals has the attribute inputmode="decimal". A field with `data-thousands` also
// accepts numbers such as 1,200, so its commas are left to the server. This listener runs before
// the listeners of the fields.
/** @param {HTMLElement} root */
export function takeCommas(root) {
  root.addEventListener(
    "input",
    ({ target: field }) => {
      if (
        !(field instanceof HTMLInputElement) ||
        field.inputMode !== "decimal" ||
        field.dataset.thousands !== undefined
      )
        return;
      const text = withPoint(field.value);
      if (text === field.value) return;
      const { selectionStart } = field;
      field.value = text;
      field.setSelectionRange(selectionStart, selectionStart);
    },
    true,
  );
  root.addEventListener("change", takeThousands, true);
  root.addEventListener("keydown", (event) => event.key === "Enter" && takeThousands(event), true);
}

/** @param {Event} event */
function takeThousands({ target: field }) {
  if (
    !(field instanceof HTMLInputElement) ||
    field.inputMode !== "numeric" ||
    !IN_THOUSANDS.test(field.value)
  )
    return;
  field.value = withoutThousands(field.value);
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

/** @param {string} text */
export function withPoint(text) {
  return WITH_COMMA.test(text) ? text.replace(",", ".") : text;
}

// Return a whole number such as 4,000 without its separators. Other text, such as 0,5, keeps its
// commas, and the field's rule then refuses it.
/** @param {string} text */
export function withoutThousands(text) {
  const plain = text.replaceAll(" ", "");
  return IN_THOUSANDS.test(plain) ? plain.replaceAll(",", "") : plain;
}
