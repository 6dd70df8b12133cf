// A round, its moments, and the run that it is of.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Cursor, EXTRA } from "../../assets/player/shared/cursor.js";
import { compose, Round } from "../../assets/player/shared/round.js";
import { Trace } from "../../assets/player/shared/trace.js";
import { AXES, originOf, roundAtPlace } from "../../assets/player/step/axis.js";
import { knownColumn, momentsOf, phaseWord, stageOf, standing } from "../../assets/player/step/moments.js";

// Two guesses at the first place, of which the second was accepted, and a child of it that was rejected.
function record(changes = {}) {
  const none = [null, null, null, null];
  return {
    i: 0,
    context: 5,
    tree: { kind: "iid", nodes: { id: [10, 11, 12, 13], parent: [-1, -1, 1, 0], depth: [1, 1, 2, 2], q: [0.5, 0.3, 0.9, 0.2], score: none } },
    verdicts: {
      p: [0.1, 0.6, 0.2, 0.4], residual: none, q: [0.5, 0.3, 0.9, 0.2], accept: [0.2, 1, 0.22, 1], u: [0.5, 0.4, 0.7, null],
      raw_p: none, raw_q: none, outcome: ["rejected", "accepted", "rejected", "unreached"],
    },
    positions: [],
    extra: { id: 20, kind: "recovered", parent: 1, prob: 0.3 },
    extras: [],
    draft_seconds: 0.1,
    draft_prefill_seconds: 0,
    verify_seconds: 0.2,
    host_seconds: 0.05,
    spans: [],
    notes: [],
    cache: [5, 5, 3],
    ...changes,
  };
}

const round = () => new Round(record(), 1.5, {}, {});

test("a walk over the stops of a run ends at its last one", () => {
  const cursor = new Cursor({ rounds: [round(), round()], isLive: false, tellingRound: 0 }, () => {});
  assert.equal(new Cursor({ rounds: [] }, () => {}).nextStop(1), null);
  cursor.toFirst();
  assert.equal(cursor.nextStop(-1), null);
  const walked = [];
  for (; cursor.nextStop(1); cursor.stepStop(1)) walked.push([cursor.round, cursor.node]);
  assert.deepEqual([...walked, [cursor.round, cursor.node]], [0, 1].flatMap((at) => [0, 1, 2, EXTRA].map((node) => [at, node])));
  cursor.stepStop(1);
  assert.deepEqual([cursor.round, cursor.node], [1, EXTRA]);
});

test("the walk goes level by level over what was examined, then to the extra token", () => {
  assert.deepEqual(round().stops, [0, 1, 2, EXTRA]);
  assert.deepEqual(round().levels, ["accepted", "rejected"]);
  assert.deepEqual(round().emitted.map(({ id, origin }) => [id, origin]), [[11, "accepted"], [20, "recovered"]]);
});

test("a sibling after a rejected one is judged against the residual", () => {
  assert.deepEqual([0, 1, 2, 3].map((node) => round().followsRejection(node)), [false, true, false, false]);
});

test("a tree says that one path was accepted, a chain how many of the drafted", () => {
  assert.equal(round().counts, "a path of 1 accepted, 4 nodes drafted");
  const chain = record({ tree: { kind: "iid", nodes: { id: [1], parent: [-1], depth: [1], q: [1], score: [1] } }, verdicts: { ...record().verdicts, outcome: ["accepted"] } });
  assert.equal(new Round(chain, 1, {}, {}).counts, "1 of 1 drafted token accepted");
});

test("the telling stop is the last rejection", () => {
  assert.equal(round().tellingStop, 2);
});

test("a round's moments are its levels, the forward, each verdict, the extra token, the commit", () => {
  const phases = momentsOf(round()).map(({ phase }) => phase);
  assert.deepEqual(phases, ["draft", "draft", "verify", "judge", "judge", "judge", "extra", "commit"]);
  const empty = new Round(record({ tree: { kind: "iid", nodes: { id: [], parent: [], depth: [], q: [], score: [] } }, verdicts: { ...record().verdicts, outcome: [] } }), 1, {}, {});
  assert.deepEqual(momentsOf(empty).map(({ phase }) => phase), ["draft", "verify", "extra", "commit"]);
});

test("the phase of the target's own token says what it is, once it is drawn", () => {
  const words = (made) => momentsOf(made).map((_, at, moments) => phaseWord("extra", made, moments, at));
  const of = (extra) => words(new Round(record({ extra }), 1, {}, {}));
  const before = Array(6).fill("recover/bonus");
  assert.deepEqual(words(round()), [...before, "recover", "recover"]);
  assert.deepEqual(of({ id: 20, kind: "bonus", parent: 0 }), [...before, "bonus", "bonus"]);
  assert.deepEqual(of(null), [...before, "nothing added"]);
});

test("no node shows a verdict before its moment", () => {
  const made = round();
  const moments = momentsOf(made);
  const stages = (at) => [0, 1, 2, 3, EXTRA].map((node) => stageOf(made, moments, at, node));
  assert.deepEqual(stages(0), ["drafted", "drafted", "absent", "absent", "absent"]);
  assert.deepEqual(stages(2), ["verified", "verified", "verified", "verified", "absent"]);
  assert.deepEqual(stages(4), ["judged", "judged", "verified", "verified", "absent"]);
  assert.deepEqual(stages(7), ["judged", "judged", "judged", "judged", "judged"]);
  assert.deepEqual(moments.map((_, at) => standing(moments, at)), [0, 0, 0, 0, 1, 2, EXTRA, EXTRA]);
});

test("a figure is its template with what differs", () => {
  const made = compose({ data: [{ x: [1], name: "p" }], layout: { height: 3, width: 4 } }, { data: [{ x: [2] }], layout: { width: 5 } });
  assert.deepEqual(made, { data: [{ x: [2], name: "p" }], layout: { height: 3, width: 5 } });
});

// ---- the run

function run() {
  const trace = new Trace();
  trace.take({ kind: "header", trace: { prompt: "", tokens: [], lanes: [{ name: "speculative", kind: "speculative", config: { temperature: 0.7 }, draft: null, forks: [] }] } });
  const event = { kind: "event", lane: "speculative", texts: { 11: "b" } };
  trace.take({ ...event, type: "prefill", clock: 0.5, record: { extra: { id: 9, kind: "first" } } });
  for (const [i, clock] of [[0, 1.5], [1, 2.5]]) trace.take({ ...event, type: "round", clock, record: record({ i }), timelines: {} });
  return trace;
}

test("a run's text is what its rounds emitted", () => {
  const { main, rounds } = run();
  assert.deepEqual(main.tokens.map(({ id, text }) => [id, text]), [[9, "#9"], [11, "b"], [20, "#20"], [11, "b"], [20, "#20"]]);
  assert.deepEqual(rounds.map(({ firstToken, endToken }) => [firstToken, endToken]), [[1, 3], [3, 5]]);
  assert.equal(run().tokenOf(1, EXTRA), 4);
  assert.equal(run().tokenOf(1, 0), -1);
});

test("origins that an engine tells behind its last token are those of its tokens and count its forwards", () => {
  const trace = new Trace();
  trace.take({ kind: "header", trace: { prompt: "", tokens: [], lanes: [{ name: "server", kind: "engine", config: { temperature: 0 }, forks: [] }] } });
  const event = { kind: "event", lane: "server", texts: {} };
  for (const clock of [1, 2, 3]) trace.take({ ...event, type: "arrival", clock, record: { id: clock, seconds: 1, origin: null } });
  const [{ tokens }] = trace.lanes;
  assert.deepEqual([tokens.map(({ origin }) => origin), trace.lanes[0].forwards], [["unknown", "unknown", "unknown"], []]);
  const origins = ["first", "accepted", "bonus"];
  trace.take({ ...event, type: "origins", clock: 3, record: origins });
  const { records: { arrivals }, forwards, clock } = trace.lanes[0];
  assert.deepEqual([tokens, arrivals].map((all) => all.map(({ origin }) => origin)), [origins, origins]);
  assert.deepEqual([forwards.map((each) => each.clock), clock], [[1, 2], 3]);
});

test("at a moment of a lane's own time it has the tokens and forwards that had come by then", () => {
  assert.deepEqual([0, 0.5, 1.4, 1.5, 9].map((moment) => run().main.tokensAt(moment)), [0, 1, 1, 3, 5]);
  assert.deepEqual([0, 0.5, 1.4, 1.5, 9].map((moment) => run().main.forwardsAt(moment)), [0, 1, 1, 2, 3]);
  assert.deepEqual([0, 1.5, 1.6, 9].map((moment) => run().roundsAt(moment)), [0, 1, 1, 2]);
});

test("every place on an axis is of one round", () => {
  const trace = run();
  for (const axis of AXES) {
    trace.rounds.forEach((each, index) => assert.equal(roundAtPlace(axis, trace, axis.end(each, index)), index, axis.name));
    assert.ok(originOf(axis, trace) < axis.end(trace.rounds[0], 0), axis.name);
    assert.equal(roundAtPlace(axis, trace, 1e9), 1);
  }
});

// c: cut short; m: accepted and rejected; a: accepted; e: nothing drafted
test("an ended race stands on its last whole round that tells most", () => {
  const { get } = Object.getOwnPropertyDescriptor(Trace.prototype, "tellingRound") ?? {};
  const kind = (letter) => ({ isWhole: letter !== "c", isMixed: "cm".includes(letter), outcomes: letter === "e" ? [] : [1] });
  const telling = (letters) => get?.call({ rounds: [...letters].map(kind) });
  const expected = { mamac: 2, aaac: 2, aee: 0, ee: 1, c: 0, "": -1 };
  for (const [letters, at] of Object.entries(expected)) assert.equal(telling(letters), at, letters);
});

// ---- the prompt

function headed(prompt, texts) {
  const trace = new Trace();
  const tokens = texts.map((text, id) => [id, text]);
  trace.take({ kind: "header", trace: { prompt, prompt_ids: tokens.map(([id]) => id), tokens, lanes: [] } });
  return trace.templatedPrompt;
}

test("a prompt in a chat template is shown with it, token by token", () => {
  const tokens = ["<|im_start|>", "user", "\n", "Why", "?", "<|im_end|>", "\n", "<|im_start|>", "assistant", "\n"];
  assert.deepEqual(headed("Why?", tokens), tokens);
});

test("a prompt without a template has nothing more to show", () => {
  assert.equal(headed("Why?", ["Why", "?"]), null);
  assert.equal(headed("Why?\n", ["<|code|>", "Why", "?"]), null);
  assert.equal(headed("Hi 😀", ["<s>", "Hi", " ", "⟨F0⟩⟨9F⟩", "⟨98⟩⟨80⟩"]), null);
});

test("the strip shows of a round only what is judged by then", () => {
  const made = round();
  const moments = momentsOf(made);
  const column = (at) => knownColumn(made, moments, at);
  assert.deepEqual(column(0), { levels: ["unreached", "unreached"], extraKind: undefined });
  assert.deepEqual(column(3), { levels: ["rejected", "unreached"], extraKind: undefined });
  assert.deepEqual(column(5), { levels: ["accepted", "rejected"], extraKind: undefined });
  assert.deepEqual(column(7), { levels: ["accepted", "rejected"], extraKind: "recovered" });
});
