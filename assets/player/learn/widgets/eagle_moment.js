// A recorded moment of an EAGLE head: which pair of things it reads, and its raw q beside the target's raw p.
// Knows no page.

const SHOWN = 6; // words of the moment

// The likeliest words behind the root by either model, the target's favourite first.
/**
 * @param {Round} round
 * @returns {{ id: number, p: number, q: number }[]}
 */
export function headMoment(round) {
  const position = round.record.positions.find(({ parent }) => parent === -1);
  if (!position) return [];
  const words = position.id.map((id, at) => ({ id, p: position.raw_p[at], q: position.raw_q[at] ?? 0 }));
  const shown = words.toSorted((a, b) => Math.max(b.p, b.q) - Math.max(a.p, a.q)).slice(0, SHOWN);
  return shown.sort((a, b) => b.p - a.p);
}

// What of the last tokens is known before a round, and which of it the head reads for its first guess. `at`
// counts back from the root, 0.
/**
 * @param {"token" | "feature"} kind
 * @param {number} at
 */
export function isRead(kind, at) {
  return kind === "token" ? at === 0 : at === 1;
}
