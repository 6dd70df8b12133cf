// The columns of the timeline: each as wide as its share, and the frame around any of them within the canvas.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Strip } from "../../assets/player/shared/strip.js";

const FRAME = 1.5; // pixels of the selected column's frame outside it

for (const [width, rounds] of [[300, 40], [120, 400], [900, 3]]) {
  test(`the frame around the first and the last of ${rounds} columns in ${width} pixels is not clipped`, () => {
    const strip = Object.assign(Object.create(Strip.prototype), { width, rounds: Array(rounds) });
    strip.layOut({ from: 0, ends: Array.from({ length: rounds }, (_, at) => at + 1) });
    assert.ok(strip.left(0) >= FRAME);
    assert.ok(strip.edges.at(-1) <= width - FRAME);
    assert.equal(strip.roundAt(0), 0);
    assert.equal(strip.roundAt(width - 1), rounds - 1);
    assert.equal(strip.roundAt((strip.left(1) + strip.edges[1]) / 2), 1);
  });
}
