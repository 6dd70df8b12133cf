// Block verification in the debugger: the order of its verdicts, and the numbers of the picture.

import assert from "node:assert/strict";
import { test } from "node:test";

import { EXTRA } from "../../assets/player/shared/cursor.js";
import { Round } from "../../assets/player/shared/round.js";
import { blockNumbers } from "../../assets/player/step/block_picture.js";
import { residualWords } from "../../assets/player/step/moment_words.js";
import { judgedSoFar, momentsOf, stageOf } from "../../assets/player/step/moments.js";

const none = [null, null, null];
const OF_TWO = {
  p: [0.4, 0.55, 0.2],
  q: [0.5, 0.5, 0.4],
  accept: [0.2, 0.4, 0.44],
  u: [0.9, 0.3, 0.6],
  outcome: ["accepted", "accepted", "rejected"],
};

/**
 * @param {any} verdicts
 * @param {any} changes
 */
function round(verdicts = OF_TWO, changes = {}) {
  const tree = {
    drawing: "independent",
    nodes: { id: [1, 2, 3], parent: [-1, 0, 1], depth: [1, 2, 3] },
  };
  return new Round(
    {
      i: 0,
      context: 3,
      tree,
      rule: "block",
      verdicts: { residual: none, raw_p: none, raw_q: none, ...verdicts },
      positions: [],
      extra: { id: 4, kind: "recovered", parent: 1, prob: 0.4 },
      ...changes,
    },
    0,
    {},
    {},
  );
}

test("the verdicts of a block follow from its last guess to its first, then the target’s own token", () => {
  const moments = momentsOf(round());
  assert.deepEqual(moments.map(({ phase, node }) => `${phase} ${node}`).slice(4), [
    "judge 2",
    "judge 1",
    "judge 0",
    `extra ${EXTRA}`,
    "commit null",
  ]);
  assert.deepEqual(
    [0, 1, 2].map((node) => stageOf(round(), moments, 5, node)),
    ["verified", "judged", "judged"],
  );
});

test("a guess that the end of the text cuts off is not read", () => {
  assert.deepEqual(
    round({ ...OF_TWO, outcome: ["accepted", "accepted", "unreached"] }, { extra: null }).stops,
    [1, 0],
  );
});

test("while a block is read from its end, a rejected guess counts once for the whole draft", () => {
  const moments = momentsOf(round({ ...OF_TWO, outcome: ["accepted", "rejected", "rejected"] }));
  const at = (/** @type {number} */ index) =>
    judgedSoFar(
      round({ ...OF_TWO, outcome: ["accepted", "rejected", "rejected"] }),
      moments,
      index,
    );
  assert.deepEqual(at(4).levels, ["rejected"]);
  assert.deepEqual([at(5).levels, at(5).behind], [["rejected"], 1]);
  assert.deepEqual([at(6).levels, at(6).behind], [["accepted", "rejected"], 1]);
});

test("the picture has the product of p/q, cut to 1, and S as it follows from the threshold", () => {
  const found = blockNumbers(round());
  assert.deepEqual(
    found.map(({ p }) => p.toFixed(3)),
    ["0.800", "0.880", "0.440"],
  );
  for (const { p, S, h } of found.slice(0, 2))
    assert.ok(Math.abs((S ?? NaN) / ((S ?? NaN) + 1 - p) - h) < 1e-9);
  assert.equal(found[2].S, null, "the last guess has no S: its threshold is the product");
  assert.equal(found[2].h, 0.44);
});

test("S is left out where the product is 1, because the threshold is 1 whatever S is", () => {
  const [first] = blockNumbers(round({ ...OF_TWO, p: [0.9, 0.1, 0.1], accept: [1, 0.1, 0.05] }));
  assert.deepEqual([first.p, first.S, first.h], [1, null, 1]);
});

test("before the draft up to a place is read, the residual there is only a possibility", () => {
  assert.match(residualWords(round(), 1, [2], "judged"), /^If the draft before this guess passes/);
  assert.match(residualWords(round(), 1, [2, 1], "judged"), /will be drawn from it/);
});
