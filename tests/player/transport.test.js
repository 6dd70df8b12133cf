// Which requests a page sends to the server, and when.

import assert from "node:assert/strict";
import { before, test } from "node:test";

import { Transport } from "../../assets/player/shared/transport.js";

const PARTS = 4;

let leaving = [];
const left = [];

before(() => {
  globalThis.window = globalThis;
  globalThis.addEventListener = (name, listener) => leaving.push([name, listener]);
  Object.defineProperty(globalThis, "navigator", {
    value: { sendBeacon: (url, ticket) => left.push([url.pathname.split("/").at(-1), ticket]) },
  });
});

// Return a server that has one more message of a recording at each request.
function server() {
  let made = 0;
  const message = (seq) => JSON.stringify({ seq, kind: seq === PARTS - 1 ? "end" : "event" });
  return {
    open: async () => ({ error: null }),
    hear: async ({ after }) => {
      made = Math.min(PARTS, made + 1);
      const messages = Array.from({ length: made }, (_, seq) => message(seq)).slice(after);
      return { state: made === PARTS ? "done" : "running", ahead: 0, messages };
    },
  };
}

// Let the server answer `count` times.
async function answers(count) {
  for (let turn = 0; turn < count; turn += 1) await new Promise(setImmediate);
}

test("a page that is closed reports only the run that it leaves", async () => {
  leaving = [];
  const on = { accepted: () => {}, queued: () => {}, message: () => {}, failed: () => {} };
  const never = new Promise(() => {});
  const asked = { join: async () => ({ error: null }), hear: () => never, stop: async () => ({}) };
  const transport = new Transport({ server: asked }, on);
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

test("a recording that arrives in parts is requested until its end", async () => {
  const kinds = [];
  const transport = new Transport(
    { server: server() },
    {
      accepted: () => {},
      queued: () => {},
      failed: (text) => kinds.push(text),
      message: ({ kind }) => kinds.push(kind),
    },
  );
  await transport.open({ golden: "any" });
  await answers(PARTS + 1);
  assert.deepEqual(kinds, ["event", "event", "event", "end"]);
  assert.ok(!transport.isBusy);
});

test("a page learns its position in the queue, then how many pages share its run, then its end", async () => {
  const told = [];
  const replies = [
    { state: "waiting", ahead: 2, running: null, messages: [] },
    { state: "running", pages: 3, beside: 5, messages: [] },
    { state: "done", messages: [] },
  ];
  const asked = { join: async () => ({ error: null }), hear: async () => replies.shift() };
  const transport = new Transport(
    { server: asked },
    {
      accepted: () => told.push("accepted"),
      queued: (ahead) => told.push(["ahead", ahead]),
      company: (...company) => told.push(company),
      failed: (text) => told.push(text),
      message: (message) => told.push(message),
    },
  );
  await transport.start("join", {});
  await answers(5);
  assert.deepEqual(told, ["accepted", ["ahead", 2], [3, 5], { kind: "end", reason: "stopped" }]);
});

test("a server that is gone is reported in one sentence, and the race ends", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  let isThere = true;
  const reply = async () => {
    if (!isThere) throw new TypeError("Failed to fetch");
    await new Promise(setImmediate);
    return { error: null, state: "running", ahead: 0, messages: [] };
  };
  const told = [];
  const gradio = { server: { join: reply, hear: reply } };
  const transport = new Transport(gradio, {
    accepted: () => {},
    queued: () => {},
    failed: (text) => told.push(text),
    message: () => {},
  });
  await transport.start("join", { form: {} });
  for (let past = 0; past < 20; past += 1) {
    assert.equal(transport.isBusy, told.length === 0);
    isThere = past < 1;
    await answers(2);
    context.mock.timers.tick(500);
    await answers(2);
  }
  assert.deepEqual(told, [
    "The connection to the server is lost. What has come stays; start again once the server is back.",
  ]);
});

test("a page that changes to another run in the middle of an answer gets no more of the old run", async () => {
  const known = new Set();
  const given = [];
  const asked = {
    open: async ({ ticket }) => (
      await new Promise(setImmediate),
      known.add(ticket),
      { error: null }
    ),
    hear: async ({ ticket }) => ({
      state: known.has(ticket) ? "done" : "unknown",
      ahead: 0,
      messages: known.has(ticket)
        ? [0, 1, 2].map((seq) => JSON.stringify({ seq, kind: "event" }))
        : [],
    }),
    stop: async () => ({}),
  };
  const transport = new Transport(
    { server: asked },
    {
      accepted: () => {},
      queued: () => {},
      failed: (text) => given.push(text),
      message: ({ seq }) => {
        given.push(seq);
        const isFirst = given.length === 1;
        if (isFirst || seq === 2) transport.leave();
        if (isFirst) transport.open({ golden: "second" });
      },
    },
  );
  await transport.open({ golden: "first" });
  await answers(8);
  assert.deepEqual(given, [0, 0, 1, 2]);
});
