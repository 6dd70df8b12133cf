// Traversal verification in the debugger: the order of its verdicts on a tree, and what is known of
// the round while they appear.

import assert from "node:assert/strict";
import { test } from "node:test";

import { EXTRA } from "../../assets/player/shared/cursor.js";
import { Round } from "../../assets/player/shared/round.js";
import { judgedNumbers } from "../../assets/player/shared/verdict_row.js";
import { redrawPlan } from "../../assets/player/shared/redraw.js";
import { treeWords } from "../../assets/player/step/moment_words.js";
import { judgedSoFar, judgedWhole, momentsOf } from "../../assets/player/step/moments.js";
import { nextVerdict } from "../../assets/player/step/next_verdict.js";
import { jointWords } from "../../assets/player/step/what_if.js";

// Two siblings (0 and 1) with two children each (2, 3 and 4, 5). The path 1, 4 is accepted after the
// whole first branch has failed.
const SECOND_BRANCH = ["rejected", "accepted", "rejected", "rejected", "accepted", "unreached"];

/**
 * @param {string[]} outcome
 * @param {any} changes
 */
function round(outcome = SECOND_BRANCH, changes = {}) {
  const nodes = { id: [1, 2, 3, 4, 5, 6], parent: [-1, -1, 0, 0, 1, 1], depth: [1, 1, 2, 2, 2, 2] };
  const numbers = (/** @type {number} */ value) => nodes.id.map(() => value);
  const verdicts = {
    p: numbers(0.4),
    residual: numbers(0.3),
    q: numbers(0.5),
    accept: numbers(0.2),
    u: numbers(0.1),
    raw_p: numbers(0.4),
    raw_q: numbers(0.5),
    outcome,
  };
  return new Round(
    {
      i: 0,
      context: 3,
      tree: { drawing: "independent", nodes },
      rule: "traversal",
      verdicts,
      positions: [],
      extra: { id: 4, kind: "bonus", parent: 4, prob: 0.4 },
      ...changes,
    },
    0,
    {},
    {},
  );
}

test("the verdicts follow from the leaves up: every guess after its children", () => {
  assert.deepEqual(round().stops, [2, 3, 0, 4, 1, EXTRA]);
  const none = round(["rejected", "rejected", "rejected", "rejected", "rejected", "rejected"], {
    extra: { id: 4, kind: "recovered", parent: -1, prob: 0.4 },
  });
  assert.deepEqual(none.stops, [2, 3, 0, 4, 5, 1, EXTRA]);
});

test("guesses count as not examined only after a path has passed", () => {
  const moments = momentsOf(round());
  const unreached = moments.map((_, at) => judgedSoFar(round(), moments, at).unreached);
  const passing = moments.findIndex(({ phase, node }) => phase === "judge" && node === 4);
  assert.ok(unreached.slice(0, passing).every((each) => each === 0));
  assert.ok(unreached.slice(passing).every((each) => each === 1));
  assert.deepEqual(judgedWhole(round()).levels, ["accepted", "accepted"]);
});

test("rejected guesses that are deeper than the accepted leaf do not count as a failed level", () => {
  const nodes = { id: [1, 2, 3], parent: [-1, -1, 0], depth: [1, 1, 2] };
  const found = round(["rejected", "accepted", "rejected"], {
    tree: { drawing: "independent", nodes },
    extra: { id: 4, kind: "bonus", parent: 1, prob: 0.4 },
  });
  assert.deepEqual(found.levels, ["accepted", "unreached"]);
});

test("the page says that the tree is read from its leaves", () => {
  const moments = momentsOf(round());
  const first = moments.find(({ phase }) => phase === "judge");
  assert.equal(
    treeWords(round(), /** @type {Moment} */ (first)),
    "reading from the leaves, now depth 2",
  );
});

test("the words about another draw say that a passing path decides about all guesses on it", () => {
  assert.equal(jointWords("it", round(), 1, "0.200"), "Any u accepts it: a longer draft passed.");
  assert.equal(
    jointWords("it", round(), 4, "0.200"),
    "Drag u: the draft up to it fails if u is at least the threshold, 0.200.",
  );
});

test("a guess after a failed sibling has a star, and its position cannot be drawn again", () => {
  assert.equal(judgedNumbers(round(), 3)[0], "30.0\u00a0%*");
  assert.equal(redrawPlan(round(), -1), null);
  assert.equal(nextVerdict([round()], 0, 0), null);
});
