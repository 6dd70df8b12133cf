// A race run five times: its middle run is shown, a stop ends it with what there is.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Repeats } from "../../assets/player/race/repeats.js";

function after(speedups, reason = "length") {
  const repeats = new Repeats();
  repeats.begin();
  const goesOn = speedups.map((speedup, run) => {
    repeats.hear({ kind: "header", run });
    return repeats.ended(reason, speedup);
  });
  return { repeats, goesOn };
}

test("after five runs the middle one is shown", () => {
  const { repeats, goesOn } = after([1.2, 0.9, 1.0, 1.5, 1.1]);
  assert.deepEqual(goesOn, [true, true, true, true, false]);
  assert.deepEqual(repeats.middle, [{ kind: "header", run: 4 }]);
  assert.deepEqual(repeats.speedups, [1.2, 0.9, 1.0, 1.5, 1.1]);
});

test("a run that is stopped ends them, and those before it count", () => {
  const { repeats } = after([1.2, 0.9]);
  repeats.hear({ kind: "header", run: 2 });
  assert.equal(repeats.ended("stopped", 1.7), false);
  assert.deepEqual([repeats.isOn, repeats.speedups], [false, [1.2, 0.9]]);
  assert.deepEqual(repeats.middle, [{ kind: "header", run: 1 }]);
});

test("one run alone has no spread", () => {
  assert.equal(after([1.2], "stopped").repeats.middle, null);
  const { repeats } = after([1.2]);
  assert.equal(repeats.ended("stopped", null), false);
  assert.equal(repeats.middle, null);
});

test("while they go on, the words count from the run under way", () => {
  const { repeats } = after([1.2, 0.9]);
  assert.equal(repeats.words, "run 3 of 5 …");
});
