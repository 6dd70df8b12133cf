// Numbers in words: probabilities short enough for a table, and seconds and waiting as exact as a guess
// deserves.

// Three decimals, or two significant digits where three decimals would say nothing, and nothing but 1 reads
// as 1; null is a probability that nobody knows.
/** @param {number | null} value */
export function probability(value) {
  if (value === null) return "—";
  if (value === 0) return "0";
  if (value >= 0.9995 && value < 1) return value < 0.99995 ? value.toFixed(4) : "> 0.9999";
  if (value >= 0.01) return value.toFixed(3);
  return value >= 0.001 ? value.toPrecision(2) : value.toExponential(1);
}

/** @param {number} seconds */
export function timeWords(seconds) {
  if (seconds < 1) return "less than a second";
  return seconds < 90 ? `about ${Math.round(seconds)} s` : `about ${Math.round(seconds / 60)} min`;
}

// Behind what goes on; "" where nothing is known.
/** @param {number | null | undefined} seconds */
export function leftWords(seconds) {
  return seconds === null || seconds === undefined ? "" : ` · ${timeWords(seconds)} left`;
}

// `running`: {title, seconds_left} of what runs now, null where nothing is known of it.
/**
 * @param {number} ahead
 * @param {{ title: string, seconds_left: number | null } | null} running
 */
export function waitingWords(ahead, running) {
  if (!ahead) return "starting …";
  const runs = ahead === 1 ? "1 run is ahead of yours" : `${ahead} runs are ahead of yours`;
  const now = running ? `${ahead === 1 ? ":" : "; now"} ${running.title}${leftWords(running.seconds_left)}` : "";
  return `waiting: ${runs}${now}`;
}

// Such as "1 round", "12 rounds".
/**
 * @param {number} count
 * @param {string} noun
 */
export function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
