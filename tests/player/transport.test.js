// What a page asks the server for, and when.

import assert from "node:assert/strict";
import { before, test } from "node:test";

import { Transport } from "../../assets/player/shared/transport.js";

const PARTS = 4;
const QUICK_MILLISECONDS = 400; // a page that misses something asks for it later than that

let leaving = [];
const left = [];

before(() => {
  globalThis.window = globalThis;
  globalThis.addEventListener = (name, listener) => leaving.push([name, listener]);
  Object.defineProperty(globalThis, "navigator", { value: { sendBeacon: (url, ticket) => left.push([url.pathname.split("/").at(-1), ticket]) } });
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

test("a page that goes says so of the run that it leaves, and of nothing else", async () => {
  leaving = [];
  const on = { accepted: () => {}, queued: () => {}, message: () => {}, failed: () => {} };
  const answers = { join: async () => ({ error: null }), look: async () => ({ state: "running", ahead: 0, messages: [] }), stop: async () => ({}) };
  const transport = new Transport({ server: answers, onBatch: () => {}, race: () => {} }, on);
  const [[name, leave]] = leaving;
  assert.equal(name, "pagehide");
  leave();
  assert.deepEqual(left, []);
  await transport.start("join", {});
  const { ticket } = transport;
  leave();
  assert.deepEqual(left, [["left", ticket]]);
  transport.leave();
});

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

test("a server that is gone is told in one sentence, and the race is given up", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  context.mock.method(performance, "now", () => now);
  let now = 0;
  let isThere = true;
  const reply = async () => {
    if (!isThere) throw new TypeError("Failed to fetch");
    return { error: null, state: "running", ahead: 0, messages: [] };
  };
  const told = [];
  const gradio = { server: { join: reply, look: reply }, race: () => {}, onBatch: () => {} };
  const transport = new Transport(gradio, {
    accepted: () => {},
    queued: () => {},
    failed: (text) => told.push(text),
    message: () => {},
  });
  await transport.start("join", { form: {} });
  for (let past = 0; past < 20; past += 1) {
    assert.equal(transport.isBusy, told.length === 0);
    isThere = past < 3;
    now += 500;
    context.mock.timers.tick(500);
    await new Promise(setImmediate);
  }
  assert.deepEqual(told, ["The connection to the server is lost."]);
});

test("who leaves a run for another one in mid-batch is given no more of it, and the other one is not taken for lost", async () => {
  const known = new Set();
  const given = [];
  const answers = {
    open: async ({ ticket }) => (await new Promise(setImmediate), known.add(ticket), { error: null }),
    look: async ({ ticket }) => ({
      state: known.has(ticket) ? "done" : "unknown",
      ahead: 0,
      messages: known.has(ticket) ? [0, 1, 2].map((seq) => JSON.stringify({ seq, kind: "event" })) : [],
    }),
    stop: async () => ({}),
  };
  const transport = new Transport({ server: answers, onBatch: () => {} }, {
    accepted: () => {},
    queued: () => {},
    failed: (text) => given.push(text),
    message: ({ seq }) => {
      given.push(seq);
      const isFirst = given.length === 1;
      if (isFirst || seq === 2) transport.leave();
      if (isFirst) transport.open({ golden: "second" });
    },
  });
  await transport.open({ golden: "first" });
  for (let turn = 0; turn < 6; turn += 1) await new Promise(setImmediate);
  assert.deepEqual(given, [0, 0, 1, 2]);
});
