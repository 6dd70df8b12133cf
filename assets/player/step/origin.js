// Where a token of the text came from, in one sentence.

import { verdictSentence } from "../race/inspector.js";
import { tokenLabel } from "../shared/tooltip.js";

export function originSentence(trace, token) {
  const text = tokenLabel(token.text);
  const round = trace.rounds[token.round];
  if (!round) return `${text}: drawn from the target after the prompt, before the first round`;
  const { depth } = round.record.tree.nodes;
  const place = token.node >= 0 ? `drafted at depth ${depth[token.node]}, ` : "";
  return `${text}: round ${token.round + 1}, ${place}${verdictSentence(round, token.node)}`;
}
