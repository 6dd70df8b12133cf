// A race that runs five times: the page shows the median run, and a stop keeps the finished runs.

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

test("after five runs the median run is shown", () => {
  const { repeats, goesOn } = after([1.2, 0.9, 1.0, 1.5, 1.1]);
  assert.deepEqual(goesOn, [true, true, true, true, false]);
  assert.deepEqual(repeats.middle, [{ kind: "header", run: 4 }]);
  assert.deepEqual(repeats.speedups, [1.2, 0.9, 1.0, 1.5, 1.1]);
});

test("stopping a run ends the repeats, and the finished runs count", () => {
  const { repeats } = after([1.2, 0.9]);
  repeats.hear({ kind: "header", run: 2 });
  assert.equal(repeats.ended("stopped", 1.7), false);
  assert.deepEqual([repeats.isOn, repeats.speedups], [false, [1.2, 0.9]]);
  assert.deepEqual(repeats.middle, [{ kind: "header", run: 1 }]);
});

test("a single run has no spread", () => {
  assert.equal(after([1.2], "stopped").repeats.middle, null);
  const { repeats } = after([1.2]);
  assert.equal(repeats.ended("stopped", null), false);
  assert.equal(repeats.middle, null);
});

test("during the repeats the words count from the current run", () => {
  const { repeats } = after([1.2, 0.9]);
  assert.equal(repeats.words, "run 3 of 5 …");
});

test("a run that other work disturbed is repeated, but only a limited number of times", () => {
  const { repeats } = after([1.2]);
  assert.equal(repeats.ended("length", 9, undefined, true), true);
  assert.deepEqual([repeats.speedups, repeats.disturbed], [[1.2], 1]);
  for (let run = 0; run < 3; run += 1)
    assert.equal(repeats.ended("length", 9, undefined, true), true);
  assert.equal(repeats.ended("length", 9, undefined, true), false);
});
