// Which answer of a step is the right one: the one that says so, or the one whose bounds hold the value that
// was measured.

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
