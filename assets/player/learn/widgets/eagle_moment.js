// A recorded moment of an EAGLE head: the token and feature that it reads, and its raw q next to
// the target's raw p.

const SHOWN = 6; // number of tokens that are shown

// Return the tokens that either model gives the highest probabilities after the root, sorted by
// decreasing p.
/**
 * @param {Round} round
 * @returns {{ id: number, p: number, q: number }[]}
 */
export function headMoment(round) {
  const position = round.record.positions.find(({ parent }) => parent === -1);
  if (!position) return [];
  const words = position.id.map((id, at) => ({
    id,
    p: position.raw_p[at],
    q: position.raw_q[at] ?? 0,
  }));
  const shown = words.toSorted((a, b) => Math.max(b.p, b.q) - Math.max(a.p, a.q)).slice(0, SHOWN);
  return shown.sort((a, b) => b.p - a.p);
}

// Return true if the head uses a given input when it drafts its first token. `kind` says whether
// this input is a token or a feature. `at` is its distance from the root in tokens: 0 is the root,
// 1 the token before it.
/**
 * @param {"token" | "feature"} kind
 * @param {number} at
 */
export function isRead(kind, at) {
  return kind === "token" ? at === 0 : at === 1;
}
