// A replay keeps the clocks of all lanes and ends with the last of them.

import assert from "node:assert/strict";
import { test } from "node:test";

import { PACES, Playback } from "../../assets/player/race/playback.js";
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
