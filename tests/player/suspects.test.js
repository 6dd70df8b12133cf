// What the quiz of the bug zoo deals, and which token came too often.

import assert from "node:assert/strict";
import test from "node:test";

import { largestGap, suspects } from "../../assets/player/learn/widgets/suspects.js";

const NAMES = ["resampled-from-target", "equal-argmax", "siblings-merged", "no-bonus", "stale-cache", "first-unverified"];
const SPECIMENS = NAMES.map((name) => ({ name, title: name, wrong: name, tell: "", seen: "", is_exact: false, siblings: 1 }));

test("the rule that is dealt is among the names, and no name comes twice", () => {
  for (const at of [0, 0.3, 0.99]) {
    const { dealt, names } = suspects(SPECIMENS, () => at);
    assert.equal(new Set(names).size, 4);
    assert.ok(names.some(({ name }) => name === dealt));
  }
});

test("what a few thousand draws do not show is never dealt", () => {
  const { names } = suspects(SPECIMENS, Math.random);
  assert.ok(names.every(({ name }) => name !== "siblings-merged"));
});

test("all others together are not the token that came too often, which may be in either place", () => {
  const bars = [{ text: "a", p: 0.5, count: 40 }, { text: "b", p: 0.2, count: 25 }, { text: "", p: 0.3, count: 35 }];
  assert.deepEqual(largestGap([bars, []]), { text: "b", p: 0.2, came: 0.25, cell: 0 });
  assert.equal(largestGap([bars, [{ text: "c", p: 0.5, count: 9 }, { text: "", p: 0.5, count: 1 }]]).text, "c");
});
