// The sentence about a draw that a user may change, and the numbers in the table of a block.

import assert from "node:assert/strict";
import { test } from "node:test";

import { jointWords } from "../../assets/player/step/what_if.js";
import { Round } from "../../assets/player/shared/round.js";
import { judgedNumbers } from "../../assets/player/shared/verdict_row.js";

// Return a round of three guesses of which block verification accepted two, the first one although
// its own draw failed.
function block() {
  const tree = {
    drawing: "independent",
    nodes: { id: [1, 2, 3], parent: [-1, 0, 1], depth: [1, 2, 3] },
  };
  const none = [null, null, null];
  const verdicts = {
    p: [0.4, 0.55, 0.2],
    q: [0.5, 0.5, 0.4],
    residual: [0.4, 0.55, 0.2],
    accept: [0.02, 0.4, 0.44],
    u: [0.9, 0.3, 0.6],
    raw_p: none,
    raw_q: none,
    outcome: ["accepted", "accepted", "rejected"],
  };
  return new Round(
    {
      i: 0,
      context: 3,
      tree,
      rule: "block",
      verdicts,
      positions: [],
      extra: { id: 4, kind: "recovered", parent: 1, prob: 0.4 },
    },
    0,
    {},
    {},
  );
}

test("in a block the words about another draw say what the longest draft decides", () => {
  const words = (node, accept) => jointWords("it", block(), node, accept);
  assert.equal(words(0, "0.020"), "Any u accepts it: a longer draft passed.");
  assert.equal(
    words(1, "0.400"),
    "Drag u: the draft up to it fails if u is at least the threshold, 0.400.",
  );
  assert.equal(
    words(2, "0.440"),
    "Drag u: it is accepted with all guesses before it if u is below the threshold, 0.440.",
  );
  assert.equal(words(1, "1"), "Any u accepts it: h is 1 here.");
  assert.equal(words(2, "0"), "No u lets the draft up to it pass: h is 0 here.");
});

test("the table of a block has p, q, the threshold h and the draw of each guess", () => {
  assert.deepEqual(judgedNumbers(block(), 0), ["40.0\u00a0%", "50.0\u00a0%", "0.020", "0.900"]);
  assert.deepEqual(
    block().stops.slice(0, 3),
    [2, 1, 0],
    "the rule reads the guesses from the last one",
  );
});
