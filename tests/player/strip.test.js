// The width of each column of the timeline is proportional to its round's share of the axis. The
// frame around a selected column always fits on the canvas.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Strip } from "../../assets/player/shared/strip.js";

const FRAME = 1.5; // width of the selected column's frame outside the column, in pixels

for (const [width, rounds] of [
  [300, 40],
  [120, 400],
  [900, 3],
]) {
  test(`the frame around the first and the last of ${rounds} columns in ${width} pixels is not clipped`, () => {
    const strip = Object.assign(Object.create(Strip.prototype), { width, rounds: Array(rounds) });
    strip.middle = 0;
    strip.layOut({ from: 0, ends: Array.from({ length: rounds }, (_, at) => at + 1) });
    assert.ok(strip.left(0) >= FRAME);
    assert.ok(strip.edges.at(-1) <= width - FRAME);
    assert.equal(strip.roundAt(0), 0);
    assert.equal(strip.roundAt(width - 1), rounds - 1);
    assert.equal(strip.roundAt((strip.left(1) + strip.edges[1]) / 2), 1);
  });
}

for (const middle of [0, 48, 96]) {
  test(`of 97 rounds on a phone, those around round ${middle + 1} are wide enough for a finger`, () => {
    const strip = Object.assign(Object.create(Strip.prototype), { width: 358, middle });
    strip.layOut({ from: 0, ends: Array.from({ length: 97 }, (_, at) => at + 1) });
    const widths = strip.edges.map((edge, at) => edge - strip.left(at));
    const near = widths.filter((_, at) => Math.abs(at - middle) <= 3);
    assert.ok(Math.min(...near) >= 10);
    assert.ok(Math.min(...widths) > 2, "the others stay in sight");
    assert.ok(Math.abs(strip.edges.at(-1) - 355) < 1e-9, "all of them are there");
  });
}

test("later rounds of a replay are shown as empty space and a line", () => {
  /** @type {any[]} */
  const drawn = [];
  const pen = {
    clearRect: (...box) => drawn.push(["clear", ...box]),
    fillRect: (...box) => drawn.push(["line", ...box]),
  };
  const strip = Object.assign(Object.create(Strip.prototype), {
    width: 100,
    height: 60,
    colours: { grid: "grey" },
    edges: [13, 23, 33],
  });
  strip.hideFrom(pen, 1);
  assert.deepEqual(drawn, [
    ["clear", 13, 0, 87, 60],
    ["line", 14, 55, 18, 2],
  ]);
});

test("a round without an extra token has a line in place of its mark once that is known", () => {
  const linesOf = (kind) => {
    let lines = 0;
    const pen = { fillRect: () => (lines += 1) };
    Object.assign(Object.create(Strip.prototype), { colours: {} }).mark(pen, kind, 10, 10);
    return lines;
  };
  assert.deepEqual([null, undefined].map(linesOf), [1, 0]);
});
