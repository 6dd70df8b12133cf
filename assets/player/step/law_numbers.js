// Entropy, overlap, divergence and margin of one examined position, as terms and values.
// Knows a position's record; the divergence is a lower bound, made of the tokens that it kept.

import { element } from "../dom.js";

export function lawNumbers(position) {
  if (!position) return [];
  const pairs = [
    ["entropy of p at T = 1", `${position.entropy.toFixed(2)} nats`, "How undecided the target is, at temperature 1"],
    ["top-2 margin", position.margin.toFixed(2), "Gap between the two best logits of the target"],
  ];
  if (position.raw_q.length) {
    pairs.splice(1, 0, ["overlap with q at T = 1", position.raw_overlap.toFixed(3), "Sum of min(p, q) at temperature 1: how often a sampled token would pass"]);
    pairs.push(["KL(p ‖ q) at T = 1", `≥ ${divergence(position).toFixed(3)} nats`, "From the tokens shown, the rest as one: a lower bound"]);
  }
  return pairs.map(([term, value, title]) => pair(term, value, title));
}

// Merging tokens can only lower a divergence, so the tokens kept and one rest bound it from below.
export function divergence({ raw_p, raw_q }) {
  const rest = (law) => Math.max(0, 1 - law.reduce((sum, each) => sum + each, 0));
  const [p, q] = [[...raw_p, rest(raw_p)], [...raw_q, rest(raw_q)]];
  const terms = p.map((each, at) => (each > 0 && q[at] > 0 ? each * Math.log(each / q[at]) : 0));
  return Math.max(0, terms.reduce((sum, each) => sum + each, 0));
}

function pair(term, value, title) {
  const made = element("div");
  made.title = title;
  made.append(element("dt", "", term), element("dd", "", value));
  return made;
}
