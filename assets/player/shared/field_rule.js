// What a field may hold, and whether a text keeps to it.
// Knows bounds as the server gives them: [low, high, whole numbers only, above low]; no field.

const WHOLE = /^\s*[+-]?\d+\s*$/;
const BRANCHING = /^\s*(0*[1-9]\d*\s*(,\s*0*[1-9]\d*\s*)*)?$/;
const ENDLESS = 10 ** 9; // a bound that nobody meets by hand is not told

// "" where the text is within bounds, else what it must be.
export function numberBreach([low, high, isWhole, isAbove = false], text) {
  const number = Number(text);
  const isNumber = isWhole ? WHOLE.test(text) : text.trim() !== "" && Number.isFinite(number);
  if (isNumber && number <= high && (isAbove ? number > low : number >= low)) return "";
  const range = isAbove ? `above ${low} and at most ${high}` : high >= ENDLESS ? `of at least ${low}` : `from ${low} to ${high}`;
  return `must be a ${isWhole ? "whole " : ""}number ${range}`;
}

export function branchingBreach(text) {
  return BRANCHING.test(text) ? "" : "must be whole numbers with commas, such as 3,2";
}
