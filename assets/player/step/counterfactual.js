// A round as it would have been with another draw: the same judged tree, the draw that is thought of, and
// where that changes the walk the server's walk over it.

import { EXTRA } from "../shared/cursor.js";

// Another draw that changes no verdict: only the number is another.
export function drawnAnew(round, node, u) {
  const made = Object.create(round);
  made.forced = { node, u };
  made.hasOtherWalk = false;
  made.verdict = (each) => ({ ...round.verdict(each), ...(each === node ? { u } : {}) });
  return made;
}

export function counterfactual(round, { outcomes, extra, emitted, tree }, node, u) {
  const made = drawnAnew(round, node, u);
  const { verdict } = made;
  made.hasOtherWalk = true;
  made.outcomes = outcomes;
  made.accepted = round.indices.filter((each) => outcomes[each] === "accepted");
  made.record = { ...round.record, extra: extra && { ...extra, id: emitted.at(-1) } };
  made.stops = made.walk();
  made.verdict = (each) => ({ ...verdict(each), outcome: outcomes[each] });
  made.figures = { ...round.figures, tree };
  return made;
}

// Every moment is past: the whole walk shows.
export function thoughtMoments(round, node) {
  const judged = round.stops.map((stop) => ({ phase: stop === EXTRA ? "resample" : "judge", node: stop }));
  return { moments: [...judged, { phase: "commit", node }], at: judged.length };
}
