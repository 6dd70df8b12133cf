// The sentence about the round that the page selects after a race, if the user has not chosen one.

// Return the sentence about the selected round. Return "" if the user has chosen another round or
// if the race is still running.
/**
 * @param {Trace} trace
 * @param {Cursor} cursor
 */
export function selectionWords(trace, { isFollowing, round: index }) {
  const round = trace.rounds[index];
  if (!round || !isFollowing || trace.isLive) return "";
  return `Round ${index + 1} is selected below, ${whyWords(round, index === trace.rounds.length - 1)}. Click another column to see another round.`;
}

/**
 * @param {Round} round
 * @param {boolean} isLast
 */
function whyWords(round, isLast) {
  if (round.isWhole && round.isMixed)
    return isLast
      ? "the last one: it has an accepted and a rejected guess"
      : "the last one with both an accepted and a rejected guess";
  if (round.isWhole && round.outcomes.length && !isLast) return "the last whole one with guesses";
  return "the last one";
}
