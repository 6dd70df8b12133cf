// A replay keeps the clocks of all lanes and ends with the last of them.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";

import { PACES, Playback } from "../../assets/player/race/playback.js";
import { isOf } from "../../assets/player/race/recorded.js";
import { selectionWords } from "../../assets/player/race/selection_words.js";
import { curveUntil, speedupAt } from "../../assets/player/race/speedup_curve.js";
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
  for (const now of [0, 9000, 9500, 10000]) playback.tick(now); // a page that stood still goes on where it was
  assert.equal(playback.moment, 1.5); // the quicker lane has been at its end for half a second
  assert.equal(cursor.round, 1);
  playback.tick(10500);
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

// The own time of each token of a recorded lane.
function clocks({ prefill, rounds = [], steps }) {
  let clock = prefill.seconds;
  const ends = [clock];
  const take = (seconds, count) => ((clock += seconds), ends.push(...Array(count).fill(clock)));
  for (const round of rounds) {
    const accepted = round.verdicts.outcome.filter((each) => each === "accepted").length;
    take((round.draft_prefill_seconds ?? 0) + round.draft_seconds + round.verify_seconds + round.host_seconds, accepted + (round.extra ? 1 : 0));
  }
  for (const seconds of steps?.seconds ?? []) take(seconds, 1);
  return ends;
}

for (const name of ["draft-model.code", "draft-tree.story", "eagle.chat.smollm2"]) {
  test(`at every moment of ${name} the curve ends at the last round whose tokens both lanes have`, () => {
    const file = new URL(`../../assets/traces/${name}.json.gz`, import.meta.url);
    const { lanes } = JSON.parse(gunzipSync(readFileSync(file)));
    const [plain, ours] = ["baseline", "speculative"].map((kind) => clocks(lanes.find((lane) => lane.kind === kind)));
    const at = ours.map((_, token) => token + 1).filter((count) => count <= plain.length && ours[count] !== ours[count - 1]);
    const line = { x: at, y: at.map((count) => plain[count - 1] / ours[count - 1]), customdata: at.map((count) => ours[count - 1]) };
    const figure = { data: [{ x: [0, 9], y: [1, 1] }, line, { x: at.slice(-1), y: line.y.slice(-1) }], layout: { annotations: [{ text: "theory" }, { text: "baseline" }] } };
    assert.ok(at.length > 5 && line.y.every((each) => each > 0));
    const end = Math.max(plain.at(-1), ours.at(-1));
    for (let part = 0; part <= 20; part += 1) {
      const moment = (end * part) / 20;
      const has = (lane, count) => lane[count - 1] <= moment + 1e-9;
      const tokens = at.findLast((count) => has(plain, count) && has(ours, count)) ?? 0;
      const cut = curveUntil(figure, moment);
      const found = speedupAt(figure, moment);
      assert.deepEqual(found, { tokens, speedup: tokens ? plain[tokens - 1] / ours[tokens - 1] : null });
      assert.deepEqual(cut.layout.annotations.map(({ text }) => text), ["grey: theory, of the whole run", "baseline"]);
      assert.deepEqual([cut.data[1].customdata.length, cut.data[2].x], [cut.data[1].x.length, tokens ? [tokens] : []]);
    }
    assert.deepEqual(speedupAt(figure, end), speedupAt(figure, Infinity));
  });
}

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
