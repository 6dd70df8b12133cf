// The distributions at one stop: the chart, reduced to what is known at a given moment, and the
// numbers below the chart.
//
// q is known once the token is drafted, p once the target has run, and the draw once the token is
// judged. The server sends the chart of a judged stop (specviz/figures/bars.py). Each trace of the
// chart has a role, by which this module finds and removes the traces that are not known yet. As
// long as p is unknown, the bars come from the chart's field `meta.drafted`.

import { element } from "../shared/dom.js";
import { drawn, percent, probability } from "../shared/number_words.js";
import { cutWords } from "../shared/settings.js";

const PIN_FLIPS = 0.8; // largest u whose label is drawn on its right, as in specviz/figures/coin.py

// Return the chart for one stage of a token, or null if nothing is known yet.
/**
 * @param {Figure} figure
 * @param {string} stage
 */
export function barsAt(figure, stage) {
  if (stage === "judged") return figure;
  return stage === "drafted" ? draftAlone(figure) : distributionsAlone(figure);
}

// Return the chart with the draw `u` in place of the recorded draw. `accept` is the acceptance
// threshold with which the rule compares u.
/**
 * @param {Figure} figure
 * @param {number} u
 * @param {number} accept
 */
export function withDraw({ data, layout }, u, accept) {
  const [threshold, draw] = drawn(accept, u);
  const pin = {
    x: [u, u],
    text: ["", ` u = ${draw} `],
    textposition: u > PIN_FLIPS ? "middle left" : "middle right",
  };
  const cut = (/** @type {any} */ { x, meta }) => ({ x: x.map(() => u * meta.scale) });
  const parts = (/** @type {any} */ trace) =>
    trace.meta.part === "cut"
      ? cut(trace)
      : trace.meta.role === "ink"
        ? pin
        : trace.meta.part === "threshold"
          ? { text: [threshold] }
          : {};
  return { data: data.map((trace) => ({ ...trace, ...parts(trace) })), layout };
}

// Return the chart of the residual after a token was drawn from it. The drawn token gets a bar even
// if its probability is small.
/** @param {Figure} figure */
export function residualDrawn({ data, layout }) {
  const { drawn: after } = layout.meta;
  if (!after) return { data, layout };
  const bars = data.map((trace, at) => ({ ...trace, ...after.bars[at] }));
  const tickvals = after.names.map((/** @type {string} */ _, /** @type {number} */ at) => at);
  return {
    data: bars,
    layout: { ...layout, yaxis: { ...layout.yaxis, tickvals, ticktext: after.names } },
  };
}

/** @param {Figure} figure */
function distributionsAlone({ data, layout }) {
  const { yaxis } = layout;
  const ticktext = [...yaxis.ticktext.slice(0, -1), ""]; // the last row shows the draw
  const both = data.filter(
    ({ meta }) => meta.part === "overlap" || meta.role === "target" || meta.role === "draft",
  );
  return { data: both, layout: { ...layout, yaxis: { ...yaxis, ticktext } } };
}

/** @param {Figure} figure */
function draftAlone({ data, layout }) {
  const { bars, axis } = layout.meta.drafted;
  if (!bars) return null;
  const draft = data.find(({ meta }) => meta.role === "draft");
  return {
    data: [{ ...draft, ...bars }],
    layout: { ...layout, yaxis: { ...layout.yaxis, ...axis } },
  };
}

const HALF_A_DIGIT = 5e-7;

// Return the entropy, overlap, divergence and margin of one examined position as pairs of term and
// value. Each term names its distribution. That is the distribution after the sampling settings if
// the record has it, otherwise the raw one at temperature 1. `rule` describes the sampling
// settings, such as "T = 0.7".
/**
 * @param {PositionRecord | undefined} position
 * @param {string | null} rule
 */
export function distributionNumbers(position, rule) {
  if (!position) return [];
  /** @type {[string, string, string][]} */
  const pairs = [
    [
      "entropy of p at T = 1",
      `${decimals(position.entropy, 2)} nats`,
      "How undecided the target is. Of the raw distribution, at temperature 1: the record keeps no other entropy",
    ],
  ];
  if (position.allowed !== 1)
    pairs.push([
      "top-2 logit margin",
      decimals(position.margin, 2),
      "Gap between the two best logits of the target, before any temperature",
    ]);
  if (position.allowed)
    pairs.push([
      "allowed by the grammar",
      position.allowed === 1
        ? "1 token: forced"
        : `${position.allowed.toLocaleString("en")} tokens`,
      "How many tokens of the vocabulary the grammar leaves to the target here",
    ]);
  const known = comparedDistributions(position, rule);
  if (!known) return pairs.map(pair);
  const { p, q, overlap, name } = known;
  pairs.splice(1, 0, [
    `overlap with q at ${name}`,
    percent(overlap),
    `Sum of min(p, q) at ${name}: how often a token sampled from q would pass`,
  ]);
  pairs.push([
    `KL(p ‖ q) at ${name}`,
    `≥ ${decimals(floored(divergence(p, q)), 3)} nats`,
    "From the tokens shown, the rest as one: a lower bound",
  ]);
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

// Describe the sampling settings of a run in words. Return null at temperature 0, where every
// probability is 0 or 1.
/** @param {DecodingConfigRecord} config */
export function ruleDistribution(config) {
  if (config.temperature === 0) return null;
  return [`T = ${config.temperature}`, ...cutWords(config)].join(", ");
}

// Return a lower bound of the KL divergence of p from q. A record keeps only the most probable
// tokens, so all other tokens are merged into one. Merging can only lower the divergence. Recorded
// numbers are rounded, so each q is first raised by half of its last digit, which also can only
// lower it.
/**
 * @param {number[]} kept_p
 * @param {number[]} kept_q
 */
export function divergence(kept_p, kept_q) {
  const rest = (/** @type {number[]} */ kept) =>
    Math.max(0, 1 - kept.reduce((sum, each) => sum + each, 0));
  const doubt = HALF_A_DIGIT * (kept_p.length + 1); // largest rounding error of the merged probability
  const p = [...kept_p, Math.max(0, rest(kept_p) - doubt)];
  const q = [...kept_q.map((each) => each + HALF_A_DIGIT), rest(kept_q) + doubt];
  const terms = p.map((each, at) => (each > 0 ? each * Math.log(each / q[at]) : 0));
  return Math.max(
    0,
    terms.reduce((sum, each) => sum + each, 0),
  );
}

// Format a number so that a positive value never reads as 0.
/**
 * @param {number} value
 * @param {number} count
 */
function decimals(value, count) {
  const text = value.toFixed(count);
  return value > 0 && Number(text) === 0 ? probability(value) : text;
}

// Round down, because a lower bound must not be rounded up.
/** @param {number} value */
function floored(value) {
  return Math.floor(value * 1000) / 1000 || value;
}

// The tooltip of the value explains the number. The term has a glossary card of its own.
/** @param {[string, string, string]} given */
function pair([term, text, title]) {
  const [made, value] = [element("div"), element("dd", "", text)];
  value.title = title;
  made.append(element("dt", "", term), value);
  return made;
}
