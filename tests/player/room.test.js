// A class: its connection to the server, the sentences about a vote, and the verdict of a question.

import assert from "node:assert/strict";
import { test } from "node:test";

import { RoomLine } from "../../assets/player/room/room_line.js";
import {
  choices,
  followWords,
  hereWords,
  hiddenWords,
  hintSentence,
  homeOf,
  isOfThisMachine,
  mineWords,
  roomIn,
  verdictBars,
  verdictSentence,
  votedWords,
  withoutRoom,
} from "../../assets/player/room/room_words.js";
import {
  nextVerdict,
  verdictFacts,
  verdictQuestion,
} from "../../assets/player/step/next_verdict.js";
import { Round } from "../../assets/player/shared/round.js";
import { RULE } from "../../assets/player/shared/verdict_row.js";

// Return a server that gives these replies in order (null: no reply), and the connection that asks it.
function line(replies) {
  const asked = [];
  const said = [];
  const answer = (name) => async (question) => {
    asked.push([name, question]);
    const reply = replies.shift();
    if (reply === null) throw new Error("no connection");
    return reply;
  };
  const server = Object.fromEntries(
    ["join_room", "look_room", "watch_room", "vote"].map((name) => [name, answer(name)]),
  );
  const on = {
    news: ({ version }) => said.push(`news ${version}`),
    seated: ({ member }) => said.push(`seated ${member}`),
    lost: (isLost) => said.push(isLost ? "lost" : "found"),
    ended: (why) => said.push(why),
  };
  return { line: new RoomLine({ server }, on), asked, said };
}

const settle = async () => {
  for (let turn = 0; turn < 12; turn += 1) await null;
};

test("a visitor with the link joins the class and then asks for news once per second", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const {
    line: made,
    asked,
    said,
  } = line([
    { member: "m" },
    { version: 4, wait: 1 },
    { version: 5, wait: 3 },
    { version: 5, wait: 1 },
  ]);
  await made.sit({ room: "a-b-c" });
  assert.deepEqual(said, ["seated m", "news 4"]);
  context.mock.timers.tick(1000);
  await settle();
  assert.deepEqual(asked.at(-1), ["look_room", { room: "a-b-c", member: "m", version: 4 }]);
  context.mock.timers.tick(2900);
  await settle();
  assert.equal(asked.length, 3); // the server's `wait` of 3 seconds is not over
  context.mock.timers.tick(100);
  await settle();
  assert.equal(asked.length, 4);
  made.rise();
});

test("a lost connection is reported after three requests, and so is its return", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { line: made, said } = line([null, null, null, null, { version: 2, wait: 1 }]);
  await made.sit({ room: "a-b-c", member: "m" });
  for (let look = 0; look < 4; look += 1) {
    assert.equal(made.isLost, look >= 2);
    context.mock.timers.tick(2000);
    await settle();
  }
  assert.deepEqual(said, ["lost", "found", "news 2"]);
  made.rise();
});

test("a member whom the class has dropped joins again, and a member of an ended class learns that", async () => {
  const {
    line: made,
    asked,
    said,
  } = line([{ error: "join it again" }, { member: "n" }, { version: 1, wait: 1 }]);
  await made.sit({ room: "a-b-c", member: "m" });
  await settle();
  assert.deepEqual(said, ["seated n", "news 1"]);
  assert.equal(asked[1][1].was, "m"); // with the earlier name, the class can keep this student's vote
  made.rise();
  const other = line([{ error: "unknown" }, { error: "This class has ended." }]);
  await other.line.sit({ room: "a-b-c", member: "m" });
  await settle();
  assert.deepEqual(other.said, ["This class has ended."]);
  assert.equal(other.line.seat, null);
});

test("a vote waits for the one before it, and an unsent vote that was changed is not sent", async () => {
  const { line: made, asked } = line([]);
  const answers = [];
  made.gradio.server.vote = (question) => {
    asked.push(question.choice);
    return new Promise((answer) => answers.push(answer));
  };
  made.seat = { room: "a-b-c", member: "m" };
  const first = made.vote({ number: 1, choice: "accept" });
  await settle();
  const replies = [
    first,
    ...["accept", "reject"].map((choice) => made.vote({ number: 1, choice })),
  ];
  await settle();
  assert.deepEqual(asked, ["accept"]);
  assert.deepEqual(made.unsaid, { number: 1, choice: "reject" });
  answers.shift()({});
  await settle();
  assert.deepEqual(asked, ["accept", "reject"]);
  answers.shift()({ error: "this vote is over" });
  assert.deepEqual(await Promise.all(replies), [{}, undefined, { error: "this vote is over" }]);
  await settle();
  assert.equal(made.unsaid, null);
});

test("a teacher asks with the secret and does not join as a member", async () => {
  const {
    line: made,
    asked,
    said,
  } = line([{ version: 1, wait: 1 }, { error: "only the teacher of this class may do this" }]);
  await made.sit({ room: "a-b-c", secret: "s" });
  await made.look();
  assert.deepEqual(
    asked.map(([name]) => name),
    ["watch_room", "watch_room"],
  );
  assert.deepEqual(said, ["news 1", "only the teacher of this class may do this"]);
});

test("the link of a class has the page's own address without the shown moment", () => {
  assert.equal(roomIn("?class=a-b-c&view=step"), "a-b-c");
  assert.equal(roomIn("?view=step"), null);
  assert.equal(
    withoutRoom("https://x.org/app/?class=a-b-c&view=step"),
    "https://x.org/app/?view=step",
  );
  assert.equal(homeOf("https://x.org/app/?view=step#top"), "https://x.org/app/");
});

test("a link that only this computer can open is recognised", () => {
  for (const host of ["localhost:7860", "127.0.0.1:7860", "[::1]:80"])
    assert.ok(isOfThisMachine(`http://${host}/`), host);
  for (const host of ["192.168.1.7:7860", "example.org", "127.example.org"])
    assert.ok(!isOfThisMachine(`http://${host}/`), host);
});

test("counts are written as they are", () => {
  assert.equal(hereWords(0), "nobody here yet");
  assert.equal(hereWords(24), "24 here");
  assert.equal(votedWords(14, 24), "14 of 24 have answered");
  assert.equal(votedWords(3, 2), "3 of 3 have answered"); // one member who answered is no longer connected
  assert.equal(votedWords(1, 1), "1 of 1 has answered");
});

const OPTIONS = [
  { name: "accept", text: "accept" },
  { name: "reject", text: "reject" },
];
const FACTS = {
  p: 0.3,
  q: 0.4,
  accept: 0.75,
  u: 0.8,
  accepted: false,
  greedy: false,
  residual: false,
};
const poll = (accept, reject, facts = {}) => ({
  kind: "verdict",
  options: OPTIONS,
  counts: { accept, reject },
  facts: { ...FACTS, ...facts },
});

test("a reveal is one sentence with the class's votes, the rule, its numbers, the draw and the outcome", () => {
  const said =
    "18 of 24 votes (75 %) were for accepting it. The rule accepts it with probability min(1, p/q) = min(1, 30.0\u00a0% / 40.0\u00a0%) = 0.750: the draw u = 0.800 is not below that, so it is rejected.";
  assert.equal(verdictSentence(poll(18, 6)), said);
  const mine = ["accept", "reject"].map((choice) =>
    mineWords({ ...poll(18, 6), revealed: true }, choice),
  );
  assert.deepEqual(mine, [
    "You said accept. The result is different.",
    "You said reject. The result is the same.",
  ]);
  assert.match(
    verdictSentence(poll(1, 0, { u: 0.2, accepted: true })),
    /^1 of 1 vote \(100 %\) was for .* u = 0\.200 is below that, so it is accepted\.$/,
  );
  assert.match(verdictSentence(poll(0, 0)), /^Nobody voted\. The rule/);
  assert.match(
    verdictSentence(poll(1, 1, { residual: true })),
    /where p is what the rejected guesses before it left/,
  );
  assert.match(
    verdictSentence(poll(1, 1, { q: 1, chosen: true })),
    /, with q = 1 because the draft chose this guess and did not draw it: the draw/,
  );
  assert.match(
    hintSentence({ p: 0.3, q: 1, greedy: false, residual: false, chosen: true }),
    /The draft chose it and did not draw it, so q counts as 1\.$/,
  );
  assert.match(
    verdictSentence(poll(1, 1, { greedy: true, accept: 0, u: null })),
    /At temperature 0 nothing is drawn/,
  );
  assert.equal(
    verdictSentence(poll(1, 1, { u: null })),
    "1 of 2 votes (50 %) was for accepting it; it is rejected.",
  );
});

const read = (share) =>
  share.includes("in") ? 1 / share.replace(/.*in\s|[,)]/g, "") : parseFloat(share) / 100;

test("dividing the p and q of a reveal gives the quotient that it names", () => {
  const said = verdictSentence(poll(1, 1, { p: 0.000335, q: 0.0273, accept: 0.01227, u: 0.5 }));
  assert.match(said, /min\(1, 0\.0335\u00a0% \/ 2\.73\u00a0%\) = 0\.012/);
  for (let seed = 1; seed < 4000; seed += 1) {
    const [q, accept] = [
      10 ** (-4 * ((seed * 0.618034) % 1)),
      Math.min(1, 10 ** (0.3 - 3 * ((seed * 0.414214) % 1))),
    ];
    const p = accept === 1 ? Math.min(1, q * 1.0007) : accept * q;
    const [, shownP, shownQ, rule] = /= min\(1, (.+?) \/ (.+?)\) = (\S+):/.exec(
      verdictSentence(poll(1, 0, { p, q, accept: Math.min(1, p / q), u: 0.5 })),
    );
    const places = rule.split(".")[1]?.length ?? 0;
    assert.equal(
      Number((Math.min(1, read(shownP) / read(shownQ)) + 1e-12).toFixed(places)),
      Number(rule),
      `${shownP} / ${shownQ} = ${rule}`,
    );
  }
});

test("a hint has p and q with enough digits for their quotient, and never the draw", () => {
  const hint = { p: 0.000335, q: 0.0273, greedy: false, residual: false };
  assert.equal(
    hintSentence(hint),
    "The target gives this guess p = 0.0335\u00a0%, and the draft gave it q = 2.73\u00a0%.",
  );
  assert.equal(
    hintSentence({ ...hint, p: 8.95e-7, q: 0.0831 }),
    "The target gives this guess p = 1\u00a0in\u00a01,100,000, and the draft gave it q = 8.3\u00a0%.",
  );
  assert.match(
    hintSentence({ ...hint, residual: true }),
    /^Of the p that the rejected guesses before it left, this guess has 0\.0335/,
  );
  assert.match(hintSentence({ ...hint, greedy: true }), /nothing is drawn\.$/);
  assert.match(hintSentence({ ...hint, q: null }), /q = \?/);
  assert.match(hiddenWords({ hint: null, greedy: false }), /^p, q and the draw u are hidden/);
  assert.equal(
    hiddenWords({ hint: null, greedy: true }),
    "p, q and the verdict are hidden until the result is shown.",
  );
  assert.match(
    hiddenWords({ hint, greedy: false }),
    /^The draw u, a random number from 0 to 1, is hidden/,
  );
});

test("a member who left the teacher's page sees a notice, unless members may move freely", () => {
  assert.match(followWords({ follows: true }, false), /follows the teacher’s/);
  assert.match(followWords({ follows: true }, true), /^You left/);
  assert.match(followWords({ follows: false }, true), /look around/);
  assert.match(followWords({ follows: true, unseen: true }, false, false), /shows more than yours/);
  assert.match(followWords({ follows: true, unseen: true }, false, true), /silent for a while/);
});

test("the chart has the class next to the rule, and the draw on the rule's bar", () => {
  const [room, rule] = verdictBars(poll(18, 6));
  assert.deepEqual([room.share, room.words, room.mark], [0.75, "0.750", null]);
  assert.deepEqual(
    [rule.name, rule.share, rule.words, rule.mark],
    [RULE, 0.75, "0.750", { at: 0.8, words: "u 0.800" }],
  );
  assert.equal(verdictBars(poll(0, 0))[0].words, "nobody voted");
  assert.equal(verdictBars(poll(1, 0, { greedy: true, accept: 1, u: null }))[1].mark, null);
  // at temperature 0 the verdict does not depend on the draw
  const greedy = verdictBars(poll(1, 2, { greedy: true, accept: 0, u: 0.99 }))[1];
  assert.deepEqual([greedy.words, greedy.mark], ["0", null]);
});

test("guesses are counted by option, including options that nobody chose", () => {
  const guesses = {
    options: [
      { name: "few", text: "Few" },
      { name: "many", text: "Many" },
    ],
    counts: { many: 3 },
  };
  assert.deepEqual(
    choices(guesses).map(({ text, count, share }) => [text, count, share]),
    [
      ["Few", 0, 0],
      ["Many", 3, 1],
    ],
  );
  assert.deepEqual(
    choices({ ...guesses, counts: {} }).map(({ share }) => share),
    [null, null],
  );
});

// Return two rounds of two drafted tokens each; the first round's second token is rejected.
function round(drawing = "independent", rule = "token") {
  const tree = { drawing, nodes: { id: [1, 2], parent: [-1, 0], depth: [1, 2] } };
  const verdicts = {
    p: [0.5, 0.1],
    q: [0.4, 0.6],
    residual: [null, null],
    accept: [1, 1 / 6],
    u: [0.3, 0.9],
    raw_p: [0.5, 0.2],
    raw_q: [0.4, 0.5],
    outcome: ["accepted", "rejected"],
  };
  const record = {
    i: 0,
    context: 3,
    tree,
    rule,
    verdicts,
    positions: [],
    extra: { id: 3, kind: "recovered", parent: 0, prob: 0.4 },
  };
  return Object.assign(new Round(record, 0, {}, {}), { firstToken: 1 });
}

test("the next verdict is the first one after the shown moment, if necessary in a later round", () => {
  const rounds = [round(), round()];
  // The moments are draft, draft, verify, judge, judge, extra, commit.
  assert.deepEqual(nextVerdict(rounds, 0, 0), { round: 0, at: 3, node: 0 });
  assert.deepEqual(nextVerdict(rounds, 0, 3), { round: 0, at: 4, node: 1 });
  assert.deepEqual(nextVerdict(rounds, 0, 4), { round: 1, at: 3, node: 0 });
  assert.equal(nextVerdict(rounds, 1, 4), null);
  assert.equal(nextVerdict([round("chosen", "typical")], 0, 0), null); // the rule of this round uses neither p/q nor a draw
  assert.equal(nextVerdict([round("independent", "block")], 0, 0), null); // a single guess does not decide about itself
  assert.deepEqual(nextVerdict([round("independent", "block"), round()], 0, 0), {
    round: 1,
    at: 3,
    node: 0,
  });
});

const traceOf = (made) => ({
  rounds: [made],
  header: { prompt: "Say" },
  templatedPrompt: null,
  main: { tokens: [{ text: " it" }, { text: " later" }] },
  text: (id) => [" ?", " all", " day", "!"][id],
});

test("a question has the text before the guess and the numbers of its rule", () => {
  const trace = traceOf(round());
  const question = verdictQuestion(trace, { round: 0, node: 1 });
  assert.deepEqual(
    [question.words, question.guess, question.place],
    ["Say it all", " day", "Round 1, guess at depth 2"],
  );
  assert.deepEqual(question.facts, {
    p: 0.1,
    q: 0.6,
    accept: 1 / 6,
    u: 0.9,
    accepted: false,
    greedy: false,
    residual: false,
    chosen: false,
  });
  const long = verdictQuestion(
    { ...trace, header: { prompt: "x".repeat(1000) } },
    { round: 0, node: 1 },
  );
  assert.ok(
    long.words.startsWith("… x") && long.words.endsWith(" it all") && long.words.length < 450,
  );
});

test("a sibling after a rejection is verified against the residual, a certain guess with q = 1", () => {
  const rule = "token";
  const tree = { drawing: "independent", nodes: { id: [1, 2], parent: [-1, -1], depth: [1, 1] } };
  const verdicts = {
    p: [0.1, 0.3],
    q: [0.6, 0.4],
    residual: [null, 0.5],
    accept: [1 / 6, 1],
    u: [0.9, 0.2],
    raw_p: [0.1, 0.3],
    raw_q: [0.6, 0.4],
    outcome: ["rejected", "accepted"],
  };
  const record = { i: 0, context: 3, tree, rule, verdicts, positions: [], extra: null };
  const facts = verdictFacts(new Round(record, 0, {}, {}), 1);
  assert.deepEqual([facts.p, facts.residual], [0.5, true]);
  const trace = traceOf(Object.assign(new Round(record, 0, {}, {}), { firstToken: 0 }));
  assert.match(
    verdictQuestion(trace, { round: 0, node: 1 }).place,
    /number 2 of 2 for the same place; “all” before it was rejected$/,
  );
  const chosen = verdictFacts(round("chosen"), 0);
  assert.deepEqual([chosen.q, chosen.chosen], [1, true]);
});

test("small probabilities have the digits from which their ratio is computed", () => {
  const facts = {
    p: 0.000338,
    q: 0.0274,
    accept: 0.0123358,
    u: 0.5,
    accepted: false,
    greedy: false,
    residual: false,
  };
  assert.match(
    verdictSentence(poll(1, 1, facts)),
    /min\(1, 0\.0338\u00a0% \/ 2\.74\u00a0%\) = 0\.012/,
  );
});
