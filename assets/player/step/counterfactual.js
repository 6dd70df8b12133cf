// A round as it would have been with another draw: the server's walk over the same judged tree.
// Knows a round and the server's reply; everything else is the round's own.

import { EXTRA } from "../cursor.js";

export function counterfactual(round, { outcomes, extra, emitted }, forced) {
  const made = Object.create(round);
  made.isThought = true;
  made.outcomes = outcomes;
  made.accepted = round.indices.filter((node) => outcomes[node] === "accepted");
  const added = extra && { id: emitted.at(-1), kind: extra, parent: made.accepted.at(-1) ?? -1, prob: null };
  made.record = { ...round.record, extra: added };
  made.stops = made.walk();
  made.verdict = (node) => ({ ...round.verdict(node), outcome: outcomes[node], u: forced[node] ?? round.verdict(node).u });
  return made;
}

// Every moment is past: the whole walk shows.
export function thoughtMoments(round, node) {
  const judged = round.stops.map((stop) => ({ phase: stop === EXTRA ? "resample" : "judge", node: stop }));
  return { moments: [...judged, { phase: "commit", node }], at: judged.length };
}
