// A replay keeps the clocks of all lanes and ends with the slowest lane.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { gunzipSync } from "node:zlib";

import { PACES, Playback } from "../../assets/player/race/playback.js";
import { isOf, madeWords } from "../../assets/player/race/recorded.js";
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
  const cursor = {
    round: 1,
    isFollowing: true,
    select: (at) => (cursor.round = at),
    setFollowing: (is) => (cursor.isFollowing = is),
  };
  return [new Playback(trace, cursor, () => {}), cursor];
}

test("a replay runs until the slowest lane has ended", () => {
  const [playback, cursor] = player(race());
  playback.pace = "real";
  playback.play();
  for (const now of [0, 9000, 9500, 10000]) playback.tick(now); // after a pause of the browser the replay continues at the same moment
  assert.equal(playback.moment, 1.5); // the faster lane ended half a second ago
  assert.equal(cursor.round, 1);
  playback.tick(10500);
  assert.deepEqual([playback.isPlaying, playback.moment, cursor.isFollowing], [false, null, true]);
});

test("a replay shows the rounds that have ended and selects the last of them", () => {
  const [playback, cursor] = player(race());
  assert.equal(playback.ended, 2); // no replay is running
  playback.pace = "real";
  playback.play();
  playback.tick(0);
  const seen = [400, 500, 900, 1000, 1900].map(
    (now) => (playback.tick(now), [playback.ended, cursor.round]),
  );
  assert.deepEqual(seen, [
    [0, 0],
    [1, 0],
    [1, 0],
    [2, 1],
    [2, 1],
  ]);
});

// Return the time of each token on a recorded lane's own clock.
function clocks({ prefill, rounds = [], steps }) {
  let clock = prefill.seconds;
  const ends = [clock];
  const take = (seconds, count) => ((clock += seconds), ends.push(...Array(count).fill(clock)));
  for (const round of rounds) {
    const accepted = round.verdicts.outcome.filter((each) => each === "accepted").length;
    take(
      (round.draft_prefill_seconds ?? 0) +
        round.draft_seconds +
        round.verify_seconds +
        round.host_seconds,
      accepted + (round.extra ? 1 : 0),
    );
  }
  for (const seconds of steps?.seconds ?? []) take(seconds, 1);
  return ends;
}

for (const name of ["draft-model.code", "draft-tree.story", "eagle.chat.smollm2"]) {
  test(`at every moment of ${name} the headline is the ratio of the shown rates of the lanes`, () => {
    const file = new URL(`../../assets/traces/${name}.json.gz`, import.meta.url);
    const { lanes } = JSON.parse(gunzipSync(readFileSync(file)));
    const [plain, ours] = ["baseline", "speculative"].map((kind) =>
      clocks(lanes.find((lane) => lane.kind === kind)),
    );
    const trace = race();
    trace.baseline.tokens = plain.map((clock) => ({ clock }));
    trace.main.tokens = ours.map((clock) => ({ clock }));
    const ratio = (moment) => trace.main.rateAt(moment) / trace.baseline.rateAt(moment);
    const x = [...new Set([...plain, ...ours])]
      .sort((one, other) => one - other)
      .filter((each) => each >= Math.max(plain[0], ours[0]));
    const line = {
      x,
      y: x.map(ratio),
      customdata: x.map((each) => trace.main.tokensAt(each)),
      hovertext: x.map(() => ""),
    };
    const figure = {
      data: [{ x: [0, 9], y: [1, 1] }, line, { x: x.slice(-1), y: line.y.slice(-1) }],
      layout: { annotations: [{ text: "theory" }, { text: "baseline" }] },
    };
    const end = Math.max(plain.at(-1), ours.at(-1));
    assert.ok(
      Math.abs(ratio(Infinity) - ours.length / ours.at(-1) / (plain.length / plain.at(-1))) < 1e-9,
    );
    for (let part = 0; part <= 50; part += 1) {
      const moment = (end * part) / 50;
      const has = moment + 1e-9 >= x[0];
      const cut = curveUntil(figure, moment);
      assert.deepEqual(speedupAt(figure, moment), {
        tokens: has ? trace.main.tokensAt(moment) : 0,
        speedup: has ? ratio(moment) : null,
        limit: "",
      });
      assert.deepEqual(
        cut.layout.annotations.map(({ text }) => text),
        ["grey: explained, of the whole run", "baseline"],
      );
      assert.equal(cut.data[1].customdata.length, cut.data[1].x.length);
    }
    assert.deepEqual(speedupAt(figure, end), speedupAt(figure, Infinity));
  });
}

test("a recording belongs to the form if prompt, method and numbers are the same", () => {
  const config = {
    method: "lookup",
    draft_length: 5,
    temperature: 0,
    seed: 0,
    max_new_tokens: 128,
  };
  const order = {
    prompt: "Why?",
    method: "lookup",
    draft_length: "5",
    temperature: "0.0",
    seed: "0",
    max_new_tokens: "128",
  };
  const trace = { header: { prompt: "Why?" }, main: { config } };
  assert.ok(isOf(trace, order));
  for (const [name, value] of [
    ["prompt", "How?"],
    ["method", "eagle"],
    ["temperature", "0.7"],
    ["draft_length", ""],
  ]) {
    assert.ok(!isOf(trace, { ...order, [name]: value }), name);
  }
  assert.ok(!isOf({ header: null, main: { config } }, order));
});

test("after a race the page says why its round is selected, except if the user selected it", () => {
  const mixed = { isWhole: true, isMixed: true, outcomes: ["accepted", "rejected"] };
  const trace = {
    rounds: [{ ...mixed }, { ...mixed }, { isWhole: false, outcomes: [] }],
    isLive: false,
  };
  const words = selectionWords(trace, { isFollowing: true, round: 1 });
  assert.match(
    words,
    /^Round 2 is selected below, the last one with both an accepted and a rejected guess/,
  );
  assert.equal(selectionWords(trace, { isFollowing: false, round: 1 }), "");
  assert.equal(selectionWords({ ...trace, isLive: true }, { isFollowing: true, round: 2 }), "");
});

test("reading speed slows a fast race down and does not change a slow one", () => {
  const trace = race();
  const [playback] = player(trace);
  assert.equal(playback.rate, 0.5); // 12 of 24 tokens per second
  assert.equal(playback.words, "slowed 2.0 times");
  trace.baseline.clock = 48;
  assert.equal(playback.rate, 1);
  assert.equal(playback.words, "in real time");
});

test("every playback speed replays a race that has rounds", () => {
  for (const { name, rate } of PACES) assert.ok(rate(race()) > 0, name);
});

test("a recording names the version and the processor that made it, if its file does", () => {
  assert.equal(
    madeWords({ made_by: "specviz 0.1.0 (1a2b3c4d)", processor: "AMD EPYC" }),
    "; made by specviz 0.1.0 (1a2b3c4d) on AMD EPYC",
  );
  assert.equal(madeWords({ made_by: "specviz 0.1.0", processor: "" }), "; made by specviz 0.1.0");
  assert.deepEqual([madeWords({ made_by: "" }), madeWords({}), madeWords(null)], ["", "", ""]);
});
