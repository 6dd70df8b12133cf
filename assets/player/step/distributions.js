// The distributions at a stop: the figure of them as far as a moment knows them, and their numbers.
//
// q is known when it is drafted, p when the target has seen it, the draw when it is judged. The figure is
// that of a judged stop (specviz/figures/bars.py), whose traces are named by their roles; what shows before
// p is known stands in its `meta.drafted`.

import { element } from "../shared/dom.js";
import { drawn, percent, probability } from "../shared/number_words.js";
import { cutWords } from "../shared/settings.js";

const PIN_FLIPS = 0.8; // from there on the pin's label stands on its left, as in specviz/figures/coin.py

// The figure at this stage; null where nothing of it is known yet.
/**
 * @param {Figure} figure
 * @param {string} stage
 */
export function barsAt(figure, stage) {
  if (stage === "judged") return figure;
  return stage === "drafted" ? draftAlone(figure) : distributionsAlone(figure);
}

// With another draw than the recorded one; `accept` is the threshold that it meets.
/**
 * @param {Figure} figure
 * @param {number} u
 * @param {number} accept
 */
export function withDraw({ data, layout }, u, accept) {
  const [threshold, draw] = drawn(accept, u);
  const pin = { x: [u, u], text: ["", ` u = ${draw} `], textposition: u > PIN_FLIPS ? "middle left" : "middle right" };
  const cut = (/** @type {any} */ { x, meta }) => ({ x: x.map(() => u * meta.scale) });
  const parts = (/** @type {any} */ trace) => (trace.meta.part === "cut" ? cut(trace) : trace.meta.role === "ink" ? pin : trace.meta.part === "threshold" ? { text: [threshold] } : {});
  return { data: data.map((trace) => ({ ...trace, ...parts(trace) })), layout };
}

// The residual once its token is drawn: the token is among the bars, however rare.
/** @param {Figure} figure */
export function residualDrawn({ data, layout }) {
  const { drawn: after } = layout.meta;
  if (!after) return { data, layout };
  const bars = data.map((trace, at) => ({ ...trace, ...after.bars[at] }));
  const tickvals = after.names.map((/** @type {string} */ _, /** @type {number} */ at) => at);
  return { data: bars, layout: { ...layout, yaxis: { ...layout.yaxis, tickvals, ticktext: after.names } } };
}

/** @param {Figure} figure */
function distributionsAlone({ data, layout }) {
  const { yaxis } = layout;
  const ticktext = [...yaxis.ticktext.slice(0, -1), ""]; // the last row is the draw's
  const both = data.filter(({ meta }) => meta.part === "overlap" || meta.role === "target" || meta.role === "draft");
  return { data: both, layout: { ...layout, yaxis: { ...yaxis, ticktext } } };
}

/** @param {Figure} figure */
function draftAlone({ data, layout }) {
  const { bars, axis } = layout.meta.drafted;
  if (!bars) return null;
  const draft = data.find(({ meta }) => meta.role === "draft");
  return { data: [{ ...draft, ...bars }], layout: { ...layout, yaxis: { ...layout.yaxis, ...axis } } };
}

// ---- their numbers

const HALF_A_DIGIT = 5e-7;

// Entropy, overlap, divergence and margin of one examined position, as terms and values. Each names the
// distribution that it is of: that of the rule where the record keeps it, else the raw one, at T = 1.
// `rule` names the rule's distribution, such as "T = 0.7".
/**
 * @param {PositionRecord | undefined} position
 * @param {string | null} rule
 */
export function distributionNumbers(position, rule) {
  if (!position) return [];
  /** @type {[string, string, string][]} */
  const pairs = [
    ["entropy of p at T = 1", `${decimals(position.entropy, 2)} nats`, "How undecided the target is. Of the raw distribution, at temperature 1: the record keeps no other entropy"],
    ["top-2 logit margin", decimals(position.margin, 2), "Gap between the two best logits of the target, before any temperature"],
  ];
  const known = comparedDistributions(position, rule);
  if (!known) return pairs.map(pair);
  const { p, q, overlap, name } = known;
  pairs.splice(1, 0, [`overlap with q at ${name}`, percent(overlap), `Sum of min(p, q) at ${name}: how often a token sampled from q would pass`]);
  pairs.push([`KL(p ‖ q) at ${name}`, `≥ ${decimals(floored(divergence(p, q)), 3)} nats`, "From the tokens shown, the rest as one: a lower bound"]);
  return pairs.map(pair);
}

/**
 * @param {PositionRecord} position
 * @param {string | null} rule
 */
function comparedDistributions({ p, q, raw_p, raw_q, overlap, raw_overlap }, rule) {
  if (q.length && rule) return { p, q, overlap, name: rule };
  return raw_q.length ? { p: raw_p, q: raw_q, overlap: raw_overlap, name: "T = 1" } : null;
}

// The rule's distribution in words, null at temperature 0, where it is 0 or 1.
/** @param {DecodingConfigRecord} config */
export function ruleDistribution(config) {
  if (config.temperature === 0) return null;
  return [`T = ${config.temperature}`, ...cutWords(config)].join(", ");
}

// Merging tokens can only lower a divergence, so the tokens kept and one rest bound it from below; each q
// may be larger by half of the last digit that a record keeps.
/**
 * @param {number[]} kept_p
 * @param {number[]} kept_q
 */
export function divergence(kept_p, kept_q) {
  const rest = (/** @type {number[]} */ kept) => Math.max(0, 1 - kept.reduce((sum, each) => sum + each, 0));
  const doubt = HALF_A_DIGIT * (kept_p.length + 1); // of a rest, which is what all digits leave
  const p = [...kept_p, Math.max(0, rest(kept_p) - doubt)];
  const q = [...kept_q.map((each) => each + HALF_A_DIGIT), rest(kept_q) + doubt];
  const terms = p.map((each, at) => (each > 0 ? each * Math.log(each / q[at]) : 0));
  return Math.max(0, terms.reduce((sum, each) => sum + each, 0));
}

// Nothing that is more than 0 reads as 0.
/**
 * @param {number} value
 * @param {number} count
 */
function decimals(value, count) {
  const text = value.toFixed(count);
  return value > 0 && Number(text) === 0 ? probability(value) : text;
}

// A lower bound must not be rounded up.
/** @param {number} value */
function floored(value) {
  return Math.floor(value * 1000) / 1000 || value;
}

// What the value is of stands behind it; the term has a card of its own.
/** @param {[string, string, string]} given */
function pair([term, text, title]) {
  const [made, value] = [element("div"), element("dd", "", text)];
  value.title = title;
  made.append(element("dt", "", term), value);
  return made;
}
