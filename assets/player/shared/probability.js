// A probability in words short enough for a table: three decimals, or two significant digits where three
// decimals would say nothing, and nothing but 1 reads as 1; null is a probability that nobody knows.

export function probability(value) {
  if (value === null) return "—";
  if (value === 0) return "0";
  if (value >= 0.9995 && value < 1) return value < 0.99995 ? value.toFixed(4) : "> 0.9999";
  if (value >= 0.01) return value.toFixed(3);
  return value >= 0.001 ? value.toPrecision(2) : value.toExponential(1);
}
