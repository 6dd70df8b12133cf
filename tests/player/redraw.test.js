// Drawing a position many times: the tokens follow p, whatever q is.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Redraw, redrawPlan } from "../../assets/player/shared/redraw.js";
import { twoWays, twoWaysWords, waysAt } from "../../assets/player/shared/two_ways.js";

const P = [0.4, 0.3, 0.2, 0.1];
const Q = [0.1, 0.2, 0.1, 0.6];
const guess = (bin, passes = true) => ({ bin, passes });

function plan(changes = {}) {
  return {
    drawing: "independent",
    ids: [1, 2, 3, null],
    p: P,
    q: Q,
    guesses: [guess(0)],
    shared: 0.05,
    ...changes,
  };
}

function drawn(changes, draws = 40000, seed = 7) {
  const made = new Redraw(plan(changes), seed);
  made.draw(draws);
  return made;
}

const total = (values) => values.reduce((sum, each) => sum + each, 0);

for (const [name, changes] of Object.entries({
  "a chain": {},
  "siblings with replacement": { guesses: [guess(0), guess(1), guess(0)] },
  "siblings without replacement": {
    drawing: "without-replacement",
    guesses: [guess(0), guess(1), guess(2)],
  },
  "picked guesses": { drawing: "chosen", guesses: [guess(3), guess(1), guess(3)] },
  "no guesses at all": { guesses: [] },
})) {
  test(`redrawing ${name} gives p, within the noise`, () => {
    const made = drawn(changes);
    assert.equal(total(made.accepted) + total(made.drawn), made.count);
    assert.ok(made.distance < 2.5 * made.floor, `${made.distance} against ${made.floor}`);
  });
}

test("a guess is accepted as often as p and q overlap, and all other tokens share one bin", () => {
  const made = drawn({});
  const overlap = 0.1 + 0.2 + 0.1 + 0.05;
  assert.ok(Math.abs(total(made.accepted) / made.count - overlap) < 0.01);
  assert.ok(Math.abs(made.accepted[3] / made.count - 0.05) < 0.01);
});

test("the lossy rule keeps accepted guesses, and its result is not p", () => {
  const made = drawn({ rule: "typical", guesses: [guess(2, false), guess(1)] });
  assert.equal(made.accepted[1], made.count);
  assert.ok(made.distance > 0.5);
  const failing = drawn({ rule: "typical", guesses: [guess(2, false)] });
  assert.ok(failing.distance < 2.5 * failing.floor);
});

test("distance and noise floor fall with more draws, and only the seed decides them", () => {
  const [few, many] = [drawn({}, 100), drawn({}, 10000)];
  assert.ok(many.floor < few.floor / 9 && many.distance < few.distance);
  assert.equal(drawn({}, 1000).distance, drawn({}, 1000).distance);
  assert.notEqual(drawn({}, 1000, 8).distance, drawn({}, 1000).distance);
});

test("drawing one by one gives the same as drawing all at once", () => {
  const made = new Redraw(plan(), 3);
  for (let each = 0; each < 50; each += 1) made.draw(1);
  assert.deepEqual(made.accepted, drawn({}, 50, 3).accepted);
});

// Return a round with two siblings of the root. The record lists only one of the two tokens among
// the most probable tokens of the position.
function round(changes = {}) {
  const position = {
    parent: -1,
    id: [5, 6],
    p: [0.5, 0.2],
    q: [0.3, 0.3],
    residual: [],
    raw_p: [],
    raw_q: [],
    overlap: 0.7,
  };
  const verdicts = [
    { p: 0.2, accept: 0.66 },
    { p: 0.05, accept: 0.5 },
  ];
  const nodes = { id: [6, 9], parent: [-1, -1], depth: [1, 1], q: [0.3, 0.1], score: [0.3, 0.1] };
  return {
    record: { tree: { drawing: "independent", nodes }, positions: [position], extra: null },
    indices: [0, 1],
    isGreedy: false,
    verdict: (node) => verdicts[node],
    ...changes,
  };
}

test("a plan has the recorded tokens, the guesses, and one bin for all others", () => {
  const made = redrawPlan(round(), -1);
  assert.deepEqual(made.ids, [5, 6, 9, null]);
  assert.deepEqual(
    made.p.map((each) => each.toFixed(2)),
    ["0.50", "0.20", "0.05", "0.25"],
  );
  assert.deepEqual(
    made.q.map((each) => each.toFixed(2)),
    ["0.30", "0.30", "0.10", "0.30"],
  );
  assert.deepEqual(
    made.guesses.map(({ bin }) => bin),
    [1, 2],
  );
  assert.ok(Math.abs(made.shared - 0.15) < 1e-9);
});

test("nothing is redrawn at temperature 0 or without recorded distributions", () => {
  assert.equal(redrawPlan(round({ isGreedy: true }), -1), null);
  assert.equal(redrawPlan(round(), 0), null);
});

test("in a block no place of a guess is redrawn, but the bonus after the last guess is", () => {
  const { record } = round();
  const [position] = record.positions;
  const bonus = { ...record, positions: [position, { ...position, parent: 1 }] };
  assert.equal(redrawPlan(round({ isJoint: true }), -1), null);
  assert.deepEqual(redrawPlan(round({ isJoint: true, record: bonus }), 1).guesses, []);
});

// A wrong rule: after a rejection it draws from p instead of the residual.
class FromTarget extends Redraw {
  constructor(...given) {
    super(...given);
    this.first = this.plan.p;
  }
}

const PLANS = {
  "four tokens": {},
  "one sure token": { p: [0.97, 0.01, 0.01, 0.01], q: [0.7, 0.1, 0.1, 0.1], shared: 0.01 },
  "many rare ones": {
    ids: [1, 2, 3, 4, 5, 6, 7, null],
    p: [0.6, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.015],
    q: [0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05],
    shared: 0.01,
  },
};

for (const [name, changes] of Object.entries(PLANS)) {
  test(`an exact rule differs only by chance, at any number of draws: ${name}`, () => {
    for (const draws of [10, 50, 300, 1000, 4000]) {
      let within = 0;
      for (let seed = 0; seed < 200; seed += 1) {
        const made = drawn(changes, draws, 1000 * seed + draws);
        within += made.distance <= made.ceiling;
      }
      assert.ok(within >= 194, `${within} of 200 at ${draws} draws`);
    }
  });
}

test("a rule that draws from p after a rejection is found within 4,000 draws", () => {
  for (const changes of [PLANS["four tokens"], PLANS["many rare ones"]]) {
    const made = new FromTarget(plan(changes), 5);
    made.draw(4000);
    assert.ok(made.distance > made.ceiling, `${made.distance} against ${made.ceiling}`);
  }
});

test("the two ways to get a token add up to p, for picked and for drawn guesses", () => {
  for (const changes of [
    {},
    { drawing: "without-replacement", guesses: [guess(0), guess(1)] },
    { drawing: "chosen", guesses: [guess(1)] },
    { guesses: [] },
  ]) {
    for (const [bin, id] of [1, 2, 3].entries()) {
      const ways = twoWays(plan(changes), id);
      assert.ok(Math.abs(ways.sum - P[bin]) < 1e-12, `${ways.sum} against ${P[bin]}`);
    }
  }
  assert.equal(twoWays(plan({ rule: "typical" }), 1), null);
  assert.equal(twoWays(plan(), 9), null);
});

test("after a rejection the sum is shown for the token that gains most, and not for one without residual", () => {
  const rare = { q: [0.1, 0.2, 0.5, 0.2], guesses: [guess(2)] }; // the third token has q > p
  const { id, ways, isOther } = waysAt(plan(rare), 3, true);
  assert.deepEqual([id, isOther, ways.residual > 0], [1, true, true]);
  assert.equal(waysAt(plan(rare), 3, false).id, 3);
  assert.equal(waysAt(plan({ rule: "typical" }), 3, true).ways, null);
});

test("the sum uses the numbers of the position, and the written token has its own bin", () => {
  const words = twoWaysWords(twoWays(plan(), 1), true).replaceAll("\u00a0", " ");
  assert.equal(words, "kept 10.0 % + rejected 55.0 % × residual 54.5 % = 40.0 % = p.");
  const unlucky = {
    kept: 0.0405327,
    rejected: 0.762046,
    residual: 0.395614,
    p: 0.342009,
    hasMore: false,
  };
  assert.match(
    twoWaysWords(unlucky, true),
    /kept 4\.05\u00a0% \+ rejected 76\.2\u00a0% × residual 39\.6\u00a0% = 34\.2\u00a0% = p/,
  );
  assert.match(twoWaysWords({ ...unlucky, p: 0.4 }, true), /≈ 40\.0/);
  const many = round();
  many.record.positions[0] = {
    ...many.record.positions[0],
    id: [5, 6, 11, 12, 13, 14, 15, 16, 17, 18, 77],
    p: [0.5, 0.2, ...Array(8).fill(0.01), 0.002],
    q: Array(11).fill(0.01),
  };
  assert.ok(!redrawPlan(many, -1).ids.includes(77));
  const ways = twoWays(redrawPlan(many, -1, 77), 77);
  assert.ok(Math.abs(ways.p - 0.002) < 1e-9 && Math.abs(ways.sum - 0.002) < 1e-9);
});
