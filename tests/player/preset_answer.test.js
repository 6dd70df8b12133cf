// The answer of an experiment never contradicts the numbers next to it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { measured, presetAnswer } from "../../assets/player/race/preset_answer.js";

function run(
  speedup,
  { rate = 0.5, count = 100, tokens = 128, over = tokens, written = tokens } = {},
) {
  const speculative = {
    tokens: written,
    acceptance_rate: rate,
    draft_utilization: 0.25,
    block_efficiency: 2.5,
    acceptance_by_depth: [{ reached: count - 20 }, { reached: 20 }],
  };
  return { speedup, speedup_tokens: over, baseline: { tokens }, speculative, identical: true };
}

const SPEED = {
  finding: {
    measure: "speedup",
    leads: ["first {speedup.0} over {speedup.1}", "second {speedup.1} over {speedup.0}"],
    close: "near",
  },
  lesson: "Used {used.0}, {tokens.1} tokens.",
};
const RATE = {
  finding: {
    measure: "acceptance",
    leads: ["first {acceptance.0}", "second {acceptance.1}"],
    close: "near",
  },
  lesson: "",
};

test("the best run is named with its numbers, followed by what is always true", () => {
  assert.equal(
    presetAnswer(SPEED, [run(1.62), run(0.69)]),
    "first 1.6× over 0.7× Used 25 %, 2.50 tokens.",
  );
  assert.match(presetAnswer(SPEED, [run(0.69), run(1.62)]), /^second 1\.6× over 0\.7×/);
});

test("a run leads only if ranges of a tenth around the shown numbers do not overlap", () => {
  for (const [a, b] of [
    [1.3, 1.1],
    [1.1, 1.3],
    [1.24, 1.05],
    [1, 1],
  ])
    assert.match(presetAnswer(SPEED, [run(a), run(b)]), /^near/, `${a} ${b}`);
  assert.match(presetAnswer(SPEED, [run(1.4), run(1.1)]), /^first/);
});

test("of three runs, the first must lead before the second as well as before the third", () => {
  const three = {
    finding: { measure: "speedup", leads: ["a", "b", "c"], close: "near" },
    lesson: "",
  };
  assert.equal(presetAnswer(three, [run(0.7), run(1.3), run(1.35)]), "near");
  assert.equal(presetAnswer(three, [run(0.7), run(1), run(1.35)]), "c");
});

test("a share leads if it differs by more than two standard errors of the examined guesses", () => {
  assert.equal(presetAnswer(RATE, [run(1, { rate: 0.83 }), run(1, { rate: 0.68 })]), "first 83 %");
  assert.equal(presetAnswer(RATE, [run(1, { rate: 0.68 }), run(1, { rate: 0.83 })]), "second 83 %");
  assert.equal(
    presetAnswer(RATE, [run(1, { rate: 0.83, count: 30 }), run(1, { rate: 0.68, count: 30 })]),
    "near",
  );
});

test("if a run has nothing to compare, only what is always true is said", () => {
  assert.equal(presetAnswer(SPEED, [run(null), run(1.5)]), "Used 25 %, 2.50 tokens.");
});

test("a line says for each of its numbers which tokens it counts", () => {
  assert.equal(
    measured(run(1.62), 0),
    "1.6× the baseline’s speed over all 128 tokens · acceptance rate 50 % · 2.50 tokens per target forward · text identical",
  );
  const part = measured(run(2.3, { tokens: 12, over: 12, written: 48 }), 0.7);
  assert.equal(
    part,
    "2.3× the baseline’s speed, 48 tokens against 12 · acceptance rate 50 % · 2.50 tokens per target forward",
  );
});
