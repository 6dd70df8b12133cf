// Entropy, overlap, divergence and margin of one examined position, as terms and values. Each names the
// distribution that it is of: that of the rule where the record keeps it, else the raw one, at T = 1.

import { element } from "../shared/dom.js";
import { probability } from "../shared/probability.js";
import { cutWords } from "../shared/settings.js";

// `rule` names the rule's distribution, such as "T = 0.7".
export function distributionNumbers(position, rule) {
  if (!position) return [];
  /** @type {[string, string, string][]} */
  const pairs = [
    ["entropy of p at T = 1", `${decimals(position.entropy, 2)} nats`, "How undecided the target is. Of the raw law, at temperature 1: the record keeps no other entropy"],
    ["top-2 logit margin", decimals(position.margin, 2), "Gap between the two best logits of the target, before any temperature"],
  ];
  const known = comparedDistributions(position, rule);
  if (!known) return pairs.map(pair);
  const { p, q, overlap, name } = known;
  pairs.splice(1, 0, [`overlap with q at ${name}`, share(overlap), `Sum of min(p, q) at ${name}: how often a token sampled from q would pass`]);
  pairs.push([`KL(p ‖ q) at ${name}`, `≥ ${decimals(floored(divergence(p, q)), 3)} nats`, "From the tokens shown, the rest as one: a lower bound"]);
  return pairs.map(pair);
}

function comparedDistributions({ p, q, raw_p, raw_q, overlap, raw_overlap }, rule) {
  if (q.length && rule) return { p, q, overlap, name: rule };
  return raw_q.length ? { p: raw_p, q: raw_q, overlap: raw_overlap, name: "T = 1" } : null;
}

// The rule's distribution in words, null at temperature 0, where it is 0 or 1.
export function ruleDistribution(config) {
  if (config.temperature === 0) return null;
  return [`T = ${config.temperature}`, ...cutWords(config)].join(", ");
}

// Merging tokens can only lower a divergence, so the tokens kept and one rest bound it from below.
export function divergence(kept_p, kept_q) {
  const rest = (kept) => Math.max(0, 1 - kept.reduce((sum, each) => sum + each, 0));
  const [p, q] = [[...kept_p, rest(kept_p)], [...kept_q, rest(kept_q)]];
  const terms = p.map((each, at) => (each > 0 && q[at] > 0 ? each * Math.log(each / q[at]) : 0));
  return Math.max(0, terms.reduce((sum, each) => sum + each, 0));
}

// Nothing that is more than 0 reads as 0.
function decimals(value, count) {
  const text = value.toFixed(count);
  return value > 0 && Number(text) === 0 ? probability(value) : text;
}

// A lower bound must not be rounded up.
function floored(value) {
  return Math.floor(value * 1000) / 1000 || value;
}

function share(value) {
  const text = decimals(value, 3);
  return value < 1 && Number(text) === 1 ? "> 0.999" : text;
}

// What the value is of stands behind it; the term has a card of its own.
function pair([term, text, title]) {
  const [made, value] = [element("div"), element("dd", "", text)];
  value.title = title;
  made.append(element("dt", "", term), value);
  return made;
}
