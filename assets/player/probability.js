// A probability in words short enough for a table: three decimals, or two significant digits where
// three decimals would say nothing; null is a probability that nobody knows. Knows numbers only.

export function probability(value) {
  if (value === null) return "—";
  if (value === 0) return "0";
  if (value >= 0.01) return value.toFixed(3);
  return value >= 0.001 ? value.toPrecision(2) : value.toExponential(1);
}
