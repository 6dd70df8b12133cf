// A replay keeps the clocks of all lanes and ends with the last of them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { PACES, Playback } from "../../assets/player/race/playback.js";
import { isOf } from "../../assets/player/race/recorded.js";
import { selectionWords } from "../../assets/player/race/selection_words.js";
import { curveUntil } from "../../assets/player/race/speedup_curve.js";
import { Trace } from "../../assets/player/shared/trace.js";

const ROUNDS = [0.5, 1];

function race() {
  const trace = new Trace();
  const lane = (name, kind) => ({ name, kind, config: { temperature: 0 }, forks: [] });
  const lanes = [lane("plain", "baseline"), lane("ours", "speculative")];
  trace.take({ kind: "header", trace: { tokens: [], lanes } });
  trace.baseline.tokens = Array.from({ length: 48 }, (_, at) => ({ clock: at / 24 }));
  trace.baseline.clock = 2;
  trace.main.clock = 1;
  trace.rounds = ROUNDS.map((clock) => ({ clock }));
  trace.end("length");
  return trace;
}

function player(trace) {
  globalThis.requestAnimationFrame = () => 0;
  const cursor = { round: 1, isFollowing: true, select: (at) => (cursor.round = at), setFollowing: (is) => (cursor.isFollowing = is) };
  return [new Playback(trace, cursor, () => {}), cursor];
}

test("a replay goes on until the slowest lane has ended", () => {
  const [playback, cursor] = player(race());
  playback.pace = "real";
  playback.play();
  playback.tick(0);
  playback.tick(1500);
  assert.equal(playback.moment, 1.5); // the quicker lane has been at its end for half a second
  assert.equal(cursor.round, 1);
  playback.tick(2100);
  assert.deepEqual([playback.isPlaying, playback.moment, cursor.isFollowing], [false, null, true]);
});

test("a replay shows the rounds that have ended, the last of them under the cursor", () => {
  const [playback, cursor] = player(race());
  assert.equal(playback.ended, 2); // nothing is replayed
  playback.pace = "real";
  playback.play();
  playback.tick(0);
  const seen = [400, 500, 900, 1000, 1900].map((now) => (playback.tick(now), [playback.ended, cursor.round]));
  assert.deepEqual(seen, [[0, 0], [1, 0], [1, 0], [2, 1], [2, 1]]);
});

test("the curve of a replay ends at the speedup of its moment, which is that of the lanes' rates", () => {
  const trace = race();
  trace.main.tokens = Array.from({ length: 48 }, (_, at) => ({ clock: at / 48 }));
  const speedup = trace.speedupAt(0.5);
  assert.equal(speedup, trace.main.rateAt(0.5) / trace.baseline.rateAt(0.5));
  assert.equal(trace.speedupAt(9), 2);
  assert.equal(trace.speedupAt(0), null);
  const line = { x: [1, 5, 9], y: [0.8, 1.5, 1.9], customdata: [0.1, 0.2, 0.3] };
  const figure = { data: [{ x: [0, 9], y: [1, 1] }, line, { x: [9], y: [1.9] }], layout: {} };
  const [, cut, dot] = curveUntil(figure, { tokens: 8, speedup }).data;
  assert.deepEqual([cut.x, cut.y.slice(0, 2), cut.y.at(-1)], [[1, 5, 8], [0.8, 1.5], speedup]);
  assert.deepEqual([dot.x, dot.y], [[8], [speedup]]);
});

test("a recording is of the form where question, method and numbers are the same", () => {
  const config = { method: "lookup", draft_length: 5, temperature: 0, seed: 0, max_new_tokens: 128 };
  const order = { prompt: "Why?", method: "lookup", draft_length: "5", temperature: "0.0", seed: "0", max_new_tokens: "128" };
  const trace = { header: { prompt: "Why?" }, main: { config } };
  assert.ok(isOf(trace, order));
  for (const [name, value] of [["prompt", "How?"], ["method", "eagle"], ["temperature", "0.7"], ["draft_length", ""]]) {
    assert.ok(!isOf(trace, { ...order, [name]: value }), name);
  }
  assert.ok(!isOf({ header: null, main: { config } }, order));
});

test("an ended race says why its round is selected, a chosen round needs no word", () => {
  const mixed = { isWhole: true, isMixed: true, outcomes: ["accepted", "rejected"] };
  const trace = { rounds: [{ ...mixed }, { ...mixed }, { isWhole: false, outcomes: [] }], isLive: false };
  const words = selectionWords(trace, { isFollowing: true, round: 1 });
  assert.match(words, /^Round 2 is selected below, the last one with both an accepted and a rejected guess/);
  assert.equal(selectionWords(trace, { isFollowing: false, round: 1 }), "");
  assert.equal(selectionWords({ ...trace, isLive: true }, { isFollowing: true, round: 2 }), "");
});

test("reading speed slows a quick race down and leaves a slow one as it is", () => {
  const trace = race();
  const [playback] = player(trace);
  assert.equal(playback.rate, 0.5); // of 24 tokens a second, 12
  assert.equal(playback.words, "slowed 2.0 times");
  trace.baseline.clock = 48;
  assert.equal(playback.rate, 1);
  assert.equal(playback.words, "in real time");
});

test("every pace moves a race that has rounds", () => {
  for (const { name, rate } of PACES) assert.ok(rate(race()) > 0, name);
});
