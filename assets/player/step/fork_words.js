// What a run's forks changed, one clause for each.

import { probability } from "../shared/probability.js";
import { allSettings } from "../shared/settings.js";
import { tokenLabel } from "../shared/tooltip.js";

export function forkWords(trace) {
  const { forks, config } = trace.main;
  return forks.map((fork, index) => {
    const after = forks[index + 1]?.config ?? config;
    const changes = [...changed(fork.config, after), ...fork.forced.map(([id, u]) => `u of ${tokenLabel(trace.text(id))} forced to ${probability(u)}`)];
    return `forked before round ${fork.round + 1}: ${changes.join(", ") || "the same setting"}`;
  });
}

function changed(before, after) {
  const decoding = allSettings().filter(({ name, word }) => word && told(before[name]) !== told(after[name]));
  return decoding.map(({ name, word }) => `${word} ${told(before[name])} → ${told(after[name])}`);
}

function told(value) {
  return Array.isArray(value) ? value.join(" ") || "usual" : String(value);
}
