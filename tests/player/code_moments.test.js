// The sixty lines of code next to a recorded round: the name of each moment and its variables.

import assert from "node:assert/strict";
import { test } from "node:test";

import { codeMoment, whyNotTheseLines } from "../../assets/player/shared/code_moments.js";

const TRACE = { text: (id) => ({ 5: " a", 6: " b", 9: " c" })[id] };

function round(changes = {}) {
  const verdicts = [
    { p: 0.5, q: 0.25, accept: 1, u: 0.9 },
    { p: 0.1, q: 0.4, accept: 0.25, u: 0.5 },
  ];
  return {
    record: {
      context: 12,
      tree: { drawing: "independent", nodes: { id: [5, 6], parent: [-1, 0], depth: [1, 2] } },
    },
    outcomes: ["accepted", "rejected"],
    accepted: [0],
    extraKind: "recovered",
    emitted: [1, 2],
    verdict: (node) => verdicts[node],
    tokenId: () => 9,
    ...changes,
  };
}

test("each moment has its name and the current values of the variables", () => {
  const values = (moment) => codeMoment(TRACE, round(), moment);
  assert.deepEqual(values({ phase: "draft", level: 2, node: 1 }), {
    name: "draft",
    values: { depth: "2", "tokens[-1]": "'·b'", "q[-1][tokens[-1]]": "0.400" },
  });
  assert.deepEqual(values({ phase: "verify", node: null }), {
    name: "verify",
    values: { known: "12", drafted: "['·a', '·b']" },
  });
  const judged = values({ phase: "judge", node: 1 });
  assert.equal(judged.name, "rejected");
  assert.deepEqual(judged.values, {
    x: "'·b'",
    n: "1",
    "p[n][x]": "0.100",
    "q[n][x]": "0.400",
    "min(1, p/q)": "0.250",
    uniform: "0.500",
  });
  assert.equal(values({ phase: "judge", node: 0 }).name, "accepted");
  assert.deepEqual(values({ phase: "extra", node: -2 }).values, {
    n: "1",
    "len(drafted)": "2",
    rest: "max(0, p[n] − q[n])",
    "tokens[-1]": "'·c'",
  });
  assert.deepEqual(values({ phase: "commit", node: null }).values, {
    n: "1",
    rejected: "1",
    "len(tokens)": "14",
  });
});

test("for a tree, a lossy rule and a block the page says that the lines do not fit", () => {
  assert.equal(whyNotTheseLines(round()), "");
  assert.match(whyNotTheseLines(round({ isTree: true })), /a tree/);
  assert.match(whyNotTheseLines(round({ isTypical: true })), /lossy/);
  assert.match(whyNotTheseLines(round({ isJoint: true })), /as a whole, from its end/);
});
