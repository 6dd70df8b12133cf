// The loop of frames that Gradio's loading screen leaves, and what else asks for frames meanwhile.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { endLeftTimer } from "../../assets/player/shared/left_timer.js";

let asked, lastId;

// As the browser does it: numbers in turn, whoever asks.
function ask(draw) {
  lastId += 1;
  asked.set(lastId, draw);
  return lastId;
}

function drawFrame() {
  for (const id of [...asked.keys()]) {
    const draw = asked.get(id);
    asked.delete(id);
    draw?.(); // unless another of this frame has cancelled it
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
  test(`only the loop that kept its own reference ends, begun ${isFirst ? "before" : "after"} us`, () => {
    const early = isFirst && loop(() => ask);
    const others = [loop(() => globalThis.window.requestAnimationFrame)];
    endLeftTimer();
    others.push(loop(() => globalThis.window.requestAnimationFrame));
    const left = early || loop(() => ask);
    for (let n = 0; n < 10; n += 1) drawFrame();
    assert.ok(left.frames <= 3);
    assert.deepEqual(others.map((each) => each.frames), [10, 10]);
    assert.equal(globalThis.window.requestAnimationFrame, ask);
  });
}

test("where no loop was left nothing is cancelled", () => {
  endLeftTimer();
  const other = loop(() => globalThis.window.requestAnimationFrame);
  for (let n = 0; n < 10; n += 1) drawFrame();
  assert.equal(other.frames, 10);
  assert.equal(asked.size, 1);
});

test("of two that kept references neither is ended, for one may be anyone's", () => {
  const left = [loop(() => ask), loop(() => ask)];
  endLeftTimer();
  for (let n = 0; n < 10; n += 1) drawFrame();
  assert.deepEqual(left.map((each) => each.frames), [10, 10]);
});
