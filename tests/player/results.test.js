// What the page says about a result: losses are losses, and above temperature 0 nothing is "identical".

import assert from "node:assert/strict";
import { test } from "node:test";

import { memory, textVerdict } from "../../assets/player/race/result.js";

const LANE = { tokens: 40 };

function verdict(temperature, ending, summary) {
  const known = { baseline: LANE, speculative: LANE, first_divergence: null, compared: 40, ...summary };
  return textVerdict(known, { config: { temperature } }, ending);
}

test("the verdict on the text is honest", () => {
  const same = verdict(0, "length", { identical: true });
  assert.deepEqual([same.value, same.label], ["identical", "40 of 40 tokens"]);
  const early = verdict(0, "stopped", { identical: true, compared: 12 });
  assert.deepEqual([early.value, early.label], ["identical", "the first 12 tokens compared"]);
  const other = verdict(0, "length", { identical: false, first_divergence: { index: 6, margin: 0.25 } });
  assert.deepEqual([other.value, other.label], ["differs", "first difference at token 7, margin 0.25"]);
  const tie = verdict(0, null, { identical: false, first_divergence: { index: 6, margin: 1e-5 } });
  assert.match(tie.label, /margin 0\.000010, a numerical tie$/);
  const chance = verdict(0.7, "length", { identical: null });
  assert.deepEqual([chance.value, chance.link], ["same distribution", "#why-exact"]);
});

test("a method without a model of its own says what the pair's draft would take", () => {
  const run = { header: { target: { bytes: 45e6 }, dtype: "float32" }, main: { drafter_bytes: 0, draft: null } };
  assert.deepEqual([memory(run).value, memory(run).label], ["0 MB", "weights beside the target’s 45 MB"]);
  assert.match(memory(run, { draft_bytes: { float32: 3_400_000 } }).label, /45 MB; the draft model would take 3\.4 MB$/);
});
