// The quiz of the bug zoo: which rules it chooses, and which token it names as drawn too often.

import assert from "node:assert/strict";
import test from "node:test";

import { largestGap, suspects } from "../../assets/player/learn/widgets/suspects.js";

const NAMES = [
  "resampled-from-target",
  "equal-argmax",
  "siblings-merged",
  "no-bonus",
  "stale-cache",
  "first-unverified",
];
const SPECIMENS = NAMES.map((name) => ({
  name,
  title: name,
  wrong: name,
  tell: "",
  seen: "",
  is_exact: false,
  siblings: 1,
  text: "",
}));

test("the rule to guess is among the offered names, and no name occurs twice", () => {
  for (const at of [0, 0.3, 0.99]) {
    const { dealt, names } = suspects(SPECIMENS, () => at);
    assert.equal(new Set(names).size, 4);
    assert.ok(names.some(({ name }) => name === dealt));
  }
});

test("rules that a few thousand draws do not reveal are never chosen", () => {
  const { names } = suspects(SPECIMENS, Math.random);
  assert.ok(names.every(({ name }) => name !== "siblings-merged"));
});

test("the bin of all other tokens is never named as the token drawn too often", () => {
  const bars = [
    { text: "a", p: 0.5, count: 40 },
    { text: "b", p: 0.2, count: 25 },
    { text: "", p: 0.3, count: 35 },
  ];
  assert.deepEqual(largestGap([bars, []]), { text: "b", p: 0.2, came: 0.25, cell: 0 });
  assert.equal(
    largestGap([
      bars,
      [
        { text: "c", p: 0.5, count: 9 },
        { text: "", p: 0.5, count: 1 },
      ],
    ]).text,
    "c",
  );
});
