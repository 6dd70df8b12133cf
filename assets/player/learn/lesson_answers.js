// Decides which answer of a step is right: the option that is marked as right, or the option whose
// bounds contain the measured value with its noise. It also compares a number that the learner typed.

const NEAR = 0.01; // largest relative difference with which a typed number is accepted as a value

/**
 * @param {LessonStepRecord} step
 * @param {string} name
 */
export function optionOf(step, name) {
  return step.options.find((option) => option.name === name);
}

// Return the right option of a step. Return undefined while the value that decides is unknown, and if
// the measurement allows values with different answers.
/**
 * @param {LessonStepRecord} step
 * @param {Record<string, any>} values
 * @param {Record<string, Possible>} [possible] what the measurement allows for values that are not exact
 */
export function rightOption({ options, value }, values, possible = {}) {
  if (!value) return options.find(({ right }) => right);
  const found = values[value];
  if (found === undefined || found === null) return undefined;
  const allowed = possible[value]?.values ?? [found];
  const [first, ...others] = allowed.map((each) =>
    options.find(({ low, high }) => each >= (low ?? -Infinity) && each < (high ?? Infinity)),
  );
  return others.every((other) => other === first) ? first : undefined;
}

// Say why a measurement decides nothing between the answers of a step, or return "" if it does.
/**
 * @param {LessonStepRecord} step
 * @param {Record<string, any>} values
 * @param {Record<string, Possible>} [possible]
 */
export function undecidedWords(step, values, possible = {}) {
  if (!step.value || rightOption(step, values, possible)) return "";
  if (values[step.value] === undefined || values[step.value] === null)
    return "It has not been measured.";
  return `${possible[step.value]?.words ?? ""} This measurement allows more than one of these answers.`.trim();
}

/** @typedef {{ number: number, isPercent: boolean, places: number, isExact: boolean }} Typed `places` counts decimals; `isExact` is true if the number has at least two significant digits */

// Read a typed number such as 1.49, 1,49, 66 % or 1.5×. Return null for any other text.
/**
 * @param {string} text
 * @returns {Typed | null}
 */
export function typedNumber(text) {
  const found = /^([+-]?\d*[.,]?\d+)\s*([%×x]?)$/.exec(text.trim());
  if (!found) return null;
  const digits = found[1].replace(",", ".");
  const places = digits.includes(".") ? digits.length - digits.indexOf(".") - 1 : 0;
  return {
    number: Number(digits),
    isPercent: found[2] === "%",
    places,
    isExact: digits.replace(/^[+-]?[0.]*/, "").length > 1,
  };
}

// Return the option whose value the learner typed, or undefined if there is none. The right option
// is tried first. A share may be typed in percent, and every number may be rounded to two digits.
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
    const asTyped =
      isPercent || (format === "percent" && Math.abs(number) > 1) ? 100 * wanted : wanted;
    if (isExact && asTyped.toFixed(places) === number.toFixed(places)) return true;
    return Math.abs(number - asTyped) <= NEAR * Math.abs(asTyped);
  };
  return options.toSorted((one, other) => Number(other.right) - Number(one.right)).find(isIt);
}
