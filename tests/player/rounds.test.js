// The values that a page reads from a round, from the moments of a round, and from a run.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Cursor, EXTRA } from "../../assets/player/shared/cursor.js";
import { compose, Round } from "../../assets/player/shared/round.js";
import { Trace } from "../../assets/player/shared/trace.js";
import { AXES, originOf, roundAtPlace } from "../../assets/player/step/axis.js";
import {
  knownColumn,
  momentsOf,
  phaseWord,
  stageOf,
  standing,
} from "../../assets/player/step/moments.js";

// Return a round with two siblings, of which the second was accepted; its child was rejected.
function record(changes = {}) {
  const none = [null, null, null, null];
  return {
    i: 0,
    context: 5,
    tree: {
      drawing: "independent",
      nodes: {
        id: [10, 11, 12, 13],
        parent: [-1, -1, 1, 0],
        depth: [1, 1, 2, 2],
        q: [0.5, 0.3, 0.9, 0.2],
        score: none,
      },
    },
    verdicts: {
      p: [0.1, 0.6, 0.2, 0.4],
      residual: none,
      q: [0.5, 0.3, 0.9, 0.2],
      accept: [0.2, 1, 0.22, 1],
      u: [0.5, 0.4, 0.7, null],
      raw_p: none,
      raw_q: none,
      outcome: ["rejected", "accepted", "rejected", "unreached"],
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

test("stepping over the moments of a run ends at its last moment", () => {
  const cursor = new Cursor(
    { rounds: [round(), round()], isLive: false, tellingRound: 0 },
    () => {},
  );
  assert.equal(new Cursor({ rounds: [] }, () => {}).nextStop(1), null);
  cursor.toFirst();
  assert.equal(cursor.nextStop(-1), null);
  const walked = [];
  for (; cursor.nextStop(1); cursor.stepStop(1)) walked.push([cursor.round, cursor.node]);
  assert.deepEqual(
    [...walked, [cursor.round, cursor.node]],
    [0, 1].flatMap((at) => [0, 1, 2, EXTRA].map((node) => [at, node])),
  );
  cursor.stepStop(1);
  assert.deepEqual([cursor.round, cursor.node], [1, EXTRA]);
});

test("the walk goes level by level over the examined nodes and then to the extra token", () => {
  assert.deepEqual(round().stops, [0, 1, 2, EXTRA]);
  assert.deepEqual(round().levels, ["accepted", "rejected"]);
  assert.deepEqual(
    round().emitted.map(({ id, origin }) => [id, origin]),
    [
      [11, "accepted"],
      [20, "recovered"],
    ],
  );
});

test("a sibling after a rejected one is verified against the residual", () => {
  assert.deepEqual(
    [0, 1, 2, 3].map((node) => round().followsRejection(node)),
    [false, true, false, false],
  );
});

test("a tree says that one path was accepted, and a chain how many tokens were", () => {
  assert.equal(round().counts, "a path of 1 accepted, 4 nodes drafted");
  const chain = record({
    tree: {
      drawing: "independent",
      nodes: { id: [1], parent: [-1], depth: [1], q: [1], score: [1] },
    },
    verdicts: { ...record().verdicts, outcome: ["accepted"] },
  });
  assert.equal(new Round(chain, 1, {}, {}).counts, "1 of 1 drafted token accepted");
});

test("the most instructive moment is the last rejection", () => {
  assert.equal(round().tellingStop, 2);
});

test("a round's moments are its levels, the forward, each verdict, the extra token and the commit", () => {
  const phases = momentsOf(round()).map(({ phase }) => phase);
  assert.deepEqual(phases, [
    "draft",
    "draft",
    "verify",
    "judge",
    "judge",
    "judge",
    "extra",
    "commit",
  ]);
  const empty = new Round(
    record({
      tree: { drawing: "independent", nodes: { id: [], parent: [], depth: [], q: [], score: [] } },
      verdicts: { ...record().verdicts, outcome: [] },
    }),
    1,
    {},
    {},
  );
  assert.deepEqual(
    momentsOf(empty).map(({ phase }) => phase),
    ["draft", "verify", "extra", "commit"],
  );
});

test("the phase of the target's own token says recovered or bonus once it is drawn", () => {
  const words = (made) =>
    momentsOf(made).map((_, at, moments) => phaseWord("extra", made, moments, at));
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
  assert.deepEqual(
    moments.map((_, at) => standing(moments, at)),
    [0, 0, 0, 0, 1, 2, EXTRA, EXTRA],
  );
});

test("a figure is restored from its template and its differences", () => {
  const made = compose(
    { data: [{ x: [1], name: "p" }], layout: { height: 3, width: 4 } },
    { data: [{ x: [2] }], layout: { width: 5 } },
  );
  assert.deepEqual(made, { data: [{ x: [2], name: "p" }], layout: { height: 3, width: 5 } });
});

function run() {
  const trace = new Trace();
  trace.take({
    kind: "header",
    trace: {
      prompt: "",
      tokens: [],
      lanes: [
        {
          name: "speculative",
          kind: "speculative",
          config: { temperature: 0.7 },
          draft: null,
          forks: [],
        },
      ],
    },
  });
  const event = { kind: "event", lane: "speculative", texts: { 11: "b" } };
  trace.take({
    ...event,
    type: "prefill",
    clock: 0.5,
    record: { extra: { id: 9, kind: "first" } },
  });
  for (const [i, clock] of [
    [0, 1.5],
    [1, 2.5],
  ])
    trace.take({ ...event, type: "round", clock, record: record({ i }), timelines: {} });
  return trace;
}

test("a run's text consists of the tokens that its rounds emitted", () => {
  const { main, rounds } = run();
  assert.deepEqual(
    main.tokens.map(({ id, text }) => [id, text]),
    [
      [9, "#9"],
      [11, "b"],
      [20, "#20"],
      [11, "b"],
      [20, "#20"],
    ],
  );
  assert.deepEqual(
    rounds.map(({ firstToken, endToken }) => [firstToken, endToken]),
    [
      [1, 3],
      [3, 5],
    ],
  );
  assert.equal(run().tokenOf(1, EXTRA), 4);
  assert.equal(run().tokenOf(1, 0), -1);
});

test("origins that an engine reports after its last token count as those of its tokens and forwards", () => {
  const trace = new Trace();
  trace.take({
    kind: "header",
    trace: {
      prompt: "",
      tokens: [],
      lanes: [{ name: "server", kind: "engine", config: { temperature: 0 }, forks: [] }],
    },
  });
  const event = { kind: "event", lane: "server", texts: {} };
  for (const clock of [1, 2, 3])
    trace.take({
      ...event,
      type: "arrival",
      clock,
      record: { id: clock, seconds: 1, origin: null },
    });
  const [{ tokens }] = trace.lanes;
  assert.deepEqual(
    [tokens.map(({ origin }) => origin), trace.lanes[0].forwards],
    [["unknown", "unknown", "unknown"], []],
  );
  const origins = ["first", "accepted", "bonus"];
  trace.take({ ...event, type: "origins", clock: 3, record: origins });
  const {
    records: { arrivals },
    forwards,
    clock,
  } = trace.lanes[0];
  assert.deepEqual(
    [tokens, arrivals].map((all) => all.map(({ origin }) => origin)),
    [origins, origins],
  );
  assert.deepEqual([forwards.map((each) => each.clock), clock], [[1, 2], 3]);
});

test("at a moment of its own clock a lane has the tokens and forwards up to then", () => {
  assert.deepEqual(
    [0, 0.5, 1.4, 1.5, 9].map((moment) => run().main.tokensAt(moment)),
    [0, 1, 1, 3, 5],
  );
  assert.deepEqual(
    [0, 0.5, 1.4, 1.5, 9].map((moment) => run().main.forwardsAt(moment)),
    [0, 1, 1, 2, 3],
  );
  assert.deepEqual(
    [0, 1.5, 1.6, 9].map((moment) => run().roundsAt(moment)),
    [0, 1, 1, 2],
  );
});

test("every position on an axis belongs to one round", () => {
  const trace = run();
  for (const axis of AXES) {
    trace.rounds.forEach((each, index) =>
      assert.equal(roundAtPlace(axis, trace, axis.end(each, index)), index, axis.name),
    );
    assert.ok(originOf(axis, trace) < axis.end(trace.rounds[0], 0), axis.name);
    assert.equal(roundAtPlace(axis, trace, 1e9), 1);
  }
});

// Each letter stands for a round. c: cut short; m: accepted and rejected tokens; a: all accepted;
// e: nothing drafted.
test("after a race the last whole and most instructive round is selected", () => {
  const { get } = Object.getOwnPropertyDescriptor(Trace.prototype, "tellingRound") ?? {};
  const kind = (letter) => ({
    isWhole: letter !== "c",
    isMixed: "cm".includes(letter),
    outcomes: letter === "e" ? [] : [1],
  });
  const telling = (letters) => get?.call({ rounds: [...letters].map(kind) });
  const expected = { mamac: 2, aaac: 2, aee: 0, ee: 1, c: 0, "": -1 };
  for (const [letters, at] of Object.entries(expected)) assert.equal(telling(letters), at, letters);
});

function headed(prompt, texts) {
  const trace = new Trace();
  const tokens = texts.map((text, id) => [id, text]);
  trace.take({
    kind: "header",
    trace: { prompt, prompt_ids: tokens.map(([id]) => id), tokens, lanes: [] },
  });
  return trace.templatedPrompt;
}

test("a prompt in a chat template is shown with the template, token by token", () => {
  const tokens = [
    "<|im_start|>",
    "user",
    "\n",
    "Why",
    "?",
    "<|im_end|>",
    "\n",
    "<|im_start|>",
    "assistant",
    "\n",
  ];
  assert.deepEqual(headed("Why?", tokens), tokens);
});

test("a prompt without a template has nothing more to show", () => {
  assert.equal(headed("Why?", ["Why", "?"]), null);
  assert.equal(headed("Why?\n", ["<|code|>", "Why", "?"]), null);
  assert.equal(headed("Hi 😀", ["<s>", "Hi", " ", "⟨F0⟩⟨9F⟩", "⟨98⟩⟨80⟩"]), null);
});

test("the strip shows only the known verdicts of a round", () => {
  const made = round();
  const moments = momentsOf(made);
  const column = (at) => knownColumn(made, moments, at);
  assert.deepEqual(column(0), { levels: ["unreached", "unreached"], extraKind: undefined });
  assert.deepEqual(column(3), { levels: ["rejected", "unreached"], extraKind: undefined });
  assert.deepEqual(column(5), { levels: ["accepted", "rejected"], extraKind: undefined });
  assert.deepEqual(column(7), { levels: ["accepted", "rejected"], extraKind: "recovered" });
});
