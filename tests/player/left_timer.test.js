// The animation loop that Gradio's loading screen leaves running is ended; other loops are not.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { endLeftTimer } from "../../assets/player/shared/left_timer.js";

let asked, lastId;

// Give each request for a frame the next number. A browser numbers the requests of all callers in
// this way.
function ask(draw) {
  lastId += 1;
  asked.set(lastId, draw);
  return lastId;
}

function drawFrame() {
  for (const id of [...asked.keys()]) {
    const draw = asked.get(id);
    asked.delete(id);
    draw?.(); // not drawn if an earlier callback of this frame has cancelled it
  }
}

function loop(request) {
  const counted = { frames: 0 };
  const next = () => {
    counted.frames += 1;
    request()(next);
  };
  request()(next);
  return counted;
}

beforeEach(() => {
  asked = new Map();
  lastId = 0;
  globalThis.window = { requestAnimationFrame: ask };
  globalThis.cancelAnimationFrame = (id) => asked.delete(id);
});

afterEach(() => {
  delete globalThis.window;
  delete globalThis.cancelAnimationFrame;
});

for (const isFirst of [true, false]) {
  test(`only Gradio's loop is ended, started ${isFirst ? "before" : "after"} ours`, () => {
    const early = isFirst && loop(() => ask);
    const others = [loop(() => globalThis.window.requestAnimationFrame)];
    endLeftTimer();
    others.push(loop(() => globalThis.window.requestAnimationFrame));
    const left = early || loop(() => ask);
    for (let n = 0; n < 10; n += 1) drawFrame();
    assert.ok(left.frames <= 3);
    assert.deepEqual(
      others.map((each) => each.frames),
      [10, 10],
    );
    assert.equal(globalThis.window.requestAnimationFrame, ask);
  });
}

test("if no loop was left running, nothing is cancelled", () => {
  endLeftTimer();
  const other = loop(() => globalThis.window.requestAnimationFrame);
  for (let n = 0; n < 10; n += 1) drawFrame();
  assert.equal(other.frames, 10);
  assert.equal(asked.size, 1);
});

test("if two loops could be Gradio's, neither is ended", () => {
  const left = [loop(() => ask), loop(() => ask)];
  endLeftTimer();
  for (let n = 0; n < 10; n += 1) drawFrame();
  assert.deepEqual(
    left.map((each) => each.frames),
    [10, 10],
  );
});
