// What a run's forks changed, one clause for each. Knows the run's header; draws nothing.

import { probability } from "../probability.js";
import { tokenLabel } from "../tooltip.js";

const NAMES = { method: "method", draft_length: "K", temperature: "temperature", seed: "seed", max_new_tokens: "tokens" };

export function forkWords(trace) {
  const { forks, config } = trace.header;
  return forks.map((fork, index) => {
    const after = forks[index + 1]?.config ?? config;
    const changes = [...changed(fork.config, after), ...fork.forced.map(([id, u]) => `u of ${tokenLabel(trace.text(id))} forced to ${probability(u)}`)];
    return `forked before round ${fork.round + 1}: ${changes.join(", ") || "nothing changed"}`;
  });
}

function changed(before, after) {
  const names = Object.keys(NAMES).filter((name) => before[name] !== after[name]);
  return names.map((name) => `${NAMES[name]} ${before[name]} → ${after[name]}`);
}
