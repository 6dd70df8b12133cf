// Words about the texts that servers wrote.

const CLOSE = 0.05; // share of the speed by which two runs of one server often differ

/** @typedef {{ text: string, tokens: number, seconds: number, first_token: number, drafted: number | null, accepted: number | null }} WrittenText */

// Write the times of a text, and the number of accepted drafted tokens if the engine reports it per
// request.
/** @param {WrittenText} written */
export function textFacts({ tokens, seconds, first_token: first, drafted, accepted }) {
  const drafts =
    drafted === null
      ? "drafts not reported per request"
      : drafted
        ? `${accepted} of ${drafted} drafted tokens accepted`
        : "nothing drafted";
  return `${tokens} tokens in ${seconds.toFixed(2)} s · first after ${(1000 * first).toFixed(0)} ms · ${drafts}`;
}

/**
 * @param {WrittenText} plain
 * @param {WrittenText} fast
 */
export function comparedTexts(plain, fast) {
  const gain = (fast.tokens / fast.seconds) * (plain.seconds / plain.tokens);
  const speed =
    Math.abs(gain - 1) < CLOSE
      ? "About as fast as without drafts"
      : `${gain.toFixed(2)} times the speed without drafts`;
  return `${speed}, measured with one text; ${sameness(plain.text, fast.text)}.`;
}

/**
 * @param {string} plain
 * @param {string} fast
 */
function sameness(plain, fast) {
  if (plain === fast) return "the texts are the same";
  const characters = [...plain];
  const other = [...fast];
  const at = characters.findIndex((each, index) => each !== other[index]);
  return `the texts differ from character ${(at < 0 ? characters.length : at) + 1} on, because two nearly equal probabilities may be rounded differently`;
}
