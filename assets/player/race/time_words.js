// Where the time of a round goes, in one sentence: what a round costs and what it brings.

// "" until both lanes have gone on from their first token.
/** @param {RunSummaryRecord} summary */
export function timeSentence({ baseline, speculative }) {
  const rounds = speculative.target_forwards - 1;
  const steps = baseline.tokens - 1;
  const { block_efficiency: brought, draft_seconds: draft, verify_seconds: verify, host_seconds: host } = speculative;
  if (rounds < 1 || steps < 1 || brought === null) return "";
  const step = (baseline.seconds - (baseline.ttft_seconds ?? 0)) / steps;
  const whole = draft + verify + host;
  const cost = whole / rounds / step;
  if (!(cost > 0) || !Number.isFinite(cost)) return "";
  const takes = `A round takes as long as ${cost.toFixed(1)} steps of the baseline`;
  const brings = `brings ${brought.toFixed(1)} tokens`;
  if (Math.abs(Math.log(brought / cost)) < 0.1) return `${takes} and ${brings}: about even.`;
  if (brought > cost) return `${takes} and ${brings}: that is the gain.`;
  return `${takes}, ${share(draft, whole)}and ${brings}: a loss. To break even it would have to bring ${cost.toFixed(1)}.`;
}

/**
 * @param {number} draft
 * @param {number} whole
 */
function share(draft, whole) {
  return draft > 0.1 * whole ? `${Math.round((100 * draft) / whole)} % of it drafting, ` : "";
}
