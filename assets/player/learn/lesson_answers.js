// Which answer of a step is the right one: the one that says so, or the one whose bounds hold the value that
// was measured. And which number it is that somebody has typed.

const NEAR = 0.01; // of a number, within which a typed one is taken for it

/**
 * @param {LessonStepRecord} step
 * @param {string} name
 */
export function optionOf(step, name) {
  return step.options.find((option) => option.name === name);
}

// Undefined while what decides is not known yet.
/**
 * @param {LessonStepRecord} step
 * @param {Record<string, any>} values
 */
export function rightOption({ options, value }, values) {
  if (!value) return options.find(({ right }) => right);
  const found = values[value];
  if (found === undefined || found === null) return undefined;
  return options.find(({ low, high }) => found >= (low ?? -Infinity) && found < (high ?? Infinity));
}

/** @typedef {{ number: number, isPercent: boolean, places: number, isExact: boolean }} Typed decimal places, and whether two digits tell something */

// What was typed: 1.49, 1,49, 66 % or 1.5×; null for what is no number.
/**
 * @param {string} text
 * @returns {Typed | null}
 */
export function typedNumber(text) {
  const found = /^([+-]?\d*[.,]?\d+)\s*([%×x]?)$/.exec(text.trim());
  if (!found) return null;
  const digits = found[1].replace(",", ".");
  const places = digits.includes(".") ? digits.length - digits.indexOf(".") - 1 : 0;
  return { number: Number(digits), isPercent: found[2] === "%", places, isExact: digits.replace(/^[+-]?[0.]*/, "").length > 1 };
}

// The option whose value was typed, the right one before any other; undefined for none of them. A share may
// be written in percent, and every number be rounded to two digits.
/**
 * @param {LessonStepRecord} step
 * @param {Record<string, any>} values
 * @param {(value: string) => ValueFormatName | undefined} formatOf
 * @param {Typed} typed
 */
export function typedOption({ options }, values, formatOf, { number, isPercent, places, isExact }) {
  const isIt = (/** @type {LessonOptionRecord} */ { value }) => {
    const wanted = values[value];
    if (wanted === undefined || wanted === null) return false;
    const format = formatOf(value);
    if (format === "count") return Math.abs(number - wanted) <= 0.5;
    const asTyped = isPercent || (format === "percent" && Math.abs(number) > 1) ? 100 * wanted : wanted;
    if (isExact && asTyped.toFixed(places) === number.toFixed(places)) return true;
    return Math.abs(number - asTyped) <= NEAR * Math.abs(asTyped);
  };
  return options.toSorted((one, other) => Number(other.right) - Number(one.right)).find(isIt);
}
