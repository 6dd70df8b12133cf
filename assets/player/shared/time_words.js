// Seconds in words, as exact as a guess deserves. Knows nothing of what takes them.

export function timeWords(seconds) {
  if (seconds < 1) return "less than a second";
  return seconds < 90 ? `about ${Math.round(seconds)} s` : `about ${Math.round(seconds / 60)} min`;
}

// Behind what goes on; "" where nothing is known.
export function leftWords(seconds) {
  return seconds === null || seconds === undefined ? "" : ` · ${timeWords(seconds)} left`;
}
