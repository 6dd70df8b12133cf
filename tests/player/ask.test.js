// The question to a class: who sees what before a hint, with a hint, and with the result.

import assert from "node:assert/strict";
import { test } from "node:test";

import { askView } from "../../assets/player/room/ask_view.js";
import { elements, named, text } from "./seen.js";

const OPTIONS = [
  { name: "accept", text: "accept" },
  { name: "reject", text: "reject" },
];
const POLL = {
  ...{ number: 1, kind: "verdict", place: "round 2", words: "Once upon ", guess: "a", hint: null },
  ...{ options: OPTIONS, greedy: false, revealed: false },
};
const HINT = { p: 0.2, q: 0.4, greedy: false, residual: false, chosen: false };
const RESULT = {
  ...{ revealed: true, hint: HINT, counts: { accept: 1, reject: 1 } },
  facts: { ...HINT, accept: 0.5, u: 0.25, accepted: true },
};
const GUESS = { ...POLL, kind: "prediction", revealed: true, counts: { accept: 2, reject: 0 } };
const NUMBER = /\d ?%|0\.\d|[pqu] = /;

function seen(poll, person = {}) {
  const asked = { poll, isTeacher: false, mine: null, votes: 0, here: 2, problem: "", ...person };
  const view = askView(asked, {});
  return {
    title: text(view, named("h2")),
    said: elements(view).find(({ props }) => props.class?.startsWith("room-said")).text,
    buttons: elements(view)
      .filter(named("button"))
      .map((each) => each.text),
    pressed: elements(view)
      .filter(named("button", { "aria-pressed": "true" }))
      .map((each) => each.text),
    all: text(view),
  };
}

const [ACCEPT, REJECT, LEAVE] = ["Accept A", "Reject R", "Leave the class"];
const REVEAL = "Show the result";
const TEACHER = { isTeacher: true };

test("at each stage the teacher and the students have exactly the buttons that work", () => {
  for (const [stage, poll, teacher, student] of [
    ["asked", POLL, [REVEAL, "Show p and q", "Cancel", "Link and code"], [ACCEPT, REJECT, LEAVE]],
    [
      "with a hint",
      { ...POLL, hint: HINT },
      [REVEAL, "Cancel", "Link and code"],
      [ACCEPT, REJECT, LEAVE],
    ],
    ["result", { ...POLL, ...RESULT }, ["Ask about the next guess", "Go on"], [LEAVE]],
    ["answers", GUESS, ["Go on"], [LEAVE]],
  ]) {
    assert.deepEqual(seen(poll, TEACHER).buttons, teacher, stage);
    assert.deepEqual(seen(poll).buttons, student, stage);
  }
});

test("no number of the verdict is shown before the result, and with a hint only p and q", () => {
  for (const person of [TEACHER, {}, { mine: "accept" }]) {
    assert.doesNotMatch(seen(POLL, person).all, NUMBER);
    const hinted = seen({ ...POLL, hint: HINT }, person).all;
    assert.match(hinted, /q = /);
    assert.doesNotMatch(hinted, /u = /);
    assert.match(seen({ ...POLL, ...RESULT }, person).all, /u = 0\.250/);
  }
});

test("the title names the verdict only in the result", () => {
  const open = "Will the target keep this guess?";
  const rejected = { ...RESULT, facts: { ...RESULT.facts, u: 0.75, accepted: false } };
  for (const [poll, title] of [
    [POLL, open],
    [{ ...POLL, hint: HINT }, open],
    [{ ...POLL, ...RESULT }, "Accepted"],
    [{ ...POLL, ...rejected }, "Rejected"],
    [GUESS, "What the class answered"],
  ])
    assert.equal(seen(poll).title, title);
});

test("the line below the question says the vote, the number of votes, or what went wrong", () => {
  const result = { ...POLL, ...RESULT };
  const lost = { problem: "The connection is lost." };
  for (const [poll, person, words] of [
    [POLL, {}, /^p, q and the draw u are hidden/],
    [POLL, { mine: "accept" }, /^You said accept\./],
    [POLL, { ...TEACHER, votes: 1 }, /^1 of 2 have answered\. p, q/],
    [POLL, { mine: "accept", ...lost }, /^The connection is lost\.$/],
    [result, {}, /^$/],
    [result, { mine: "reject" }, /^You said reject\./],
    [result, { ...TEACHER, votes: 2 }, /^$/],
    [result, { ...TEACHER, ...lost }, /^The connection is lost\.$/],
  ])
    assert.match(seen(poll, person).said, words);
  assert.deepEqual(seen(POLL, { mine: "reject" }).pressed, [REJECT]);
});

test("a guess of spaces and line breaks can be seen", () => {
  assert.match(seen({ ...POLL, guess: " \n" }).all, /Once upon ·\\n/);
});
