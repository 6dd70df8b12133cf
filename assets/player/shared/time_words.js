// Seconds and waiting in words, as exact as a guess deserves.

export function timeWords(seconds) {
  if (seconds < 1) return "less than a second";
  return seconds < 90 ? `about ${Math.round(seconds)} s` : `about ${Math.round(seconds / 60)} min`;
}

// Behind what goes on; "" where nothing is known.
export function leftWords(seconds) {
  return seconds === null || seconds === undefined ? "" : ` · ${timeWords(seconds)} left`;
}

// `running`: {title, seconds_left} of what runs now, null where nothing is known of it.
export function waitingWords(ahead, running) {
  if (!ahead) return "starting …";
  const runs = ahead === 1 ? "1 run is ahead of yours" : `${ahead} runs are ahead of yours`;
  const now = running ? `${ahead === 1 ? ":" : "; now"} ${running.title}${leftWords(running.seconds_left)}` : "";
  return `waiting: ${runs}${now}`;
}
