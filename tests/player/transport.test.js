// What a page asks the server for, and when.

import assert from "node:assert/strict";
import { before, test } from "node:test";

import { Transport } from "../../assets/player/shared/transport.js";

const PARTS = 4;
const QUICK_MILLISECONDS = 400; // a page that misses something asks for it later than that

before(() => {
  globalThis.window = globalThis;
});

// A server that has made one more message of a recording at each look.
function server() {
  let made = 0;
  const message = (seq) => JSON.stringify({ seq, kind: seq === PARTS - 1 ? "end" : "event" });
  return {
    open: async () => ({ error: null }),
    look: async ({ after }) => {
      made = Math.min(PARTS, made + 1);
      const messages = Array.from({ length: made }, (_, seq) => message(seq)).slice(after);
      return { state: made === PARTS ? "done" : "running", ahead: 0, messages };
    },
  };
}

test("a recording that comes in parts is whole before the page would miss one", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const kinds = [];
  const transport = new Transport({ server: server(), onBatch: () => {} }, {
    accepted: () => {},
    queued: () => {},
    failed: (text) => kinds.push(text),
    message: ({ kind }) => kinds.push(kind),
  });
  await transport.open({ golden: "any" });
  for (let past = 0; past < QUICK_MILLISECONDS; past += 20) {
    await new Promise(setImmediate); // the server's answer
    context.mock.timers.tick(20);
  }
  assert.deepEqual(kinds, ["event", "event", "event", "end"]);
  assert.ok(!transport.isBusy);
});
