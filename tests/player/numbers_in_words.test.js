// How the page writes numbers: probabilities, seconds, waiting runs.

import assert from "node:assert/strict";
import { test } from "node:test";

import { cut } from "../../assets/player/shared/charts.js";
import {
  compared,
  drawn,
  inProportion,
  leftWords,
  percent,
  probability,
  reckoned,
  timeWords,
  waitingWords,
  whole,
} from "../../assets/player/shared/number_words.js";
import { tokenLabel } from "../../assets/player/shared/token_label.js";

test("small probabilities keep their digits, and only 1 is written as 1", () => {
  const values = [0, 1, 0.6014, 0.01, 0.00312, 0.00031, 5e-8, 0.9996, 0.99999, null];
  assert.deepEqual(values.map(probability), [
    "0",
    "1",
    "0.601",
    "0.010",
    "0.0031",
    "0.00031",
    "under 0.00001",
    "0.9996",
    "0.99999",
    "—",
  ]);
});

test("a probability next to its draw has the same digits as elsewhere", () => {
  for (const [value, draw, text] of [
    [0.000061, 0.0003, "0.000061"],
    [0.0051, 0.5, "0.0051"],
    [0.000012, 0.0001, "0.000012"],
  ]) {
    assert.equal(drawn(value, draw)[0], text);
    assert.equal(probability(value), text);
    assert.equal(
      Number((Number(percent(value).replace("\u00a0%", "")) / 100).toPrecision(6)),
      Number(text),
    );
  }
});

const plain = (texts) => texts.map((text) => text.replace("\u00a0", " "));

test("p and q are written in percent, separately and in proportion, as the server writes them", () => {
  // The values are from the doctests of `percent`, `compared` and `in_proportion` in specviz/figures/labels.py.
  const values = [0.27, 0.0284, 0.003, 0.9991, 0.9996, 0, 1, 0.000032, 3e-8, 0.999999];
  assert.deepEqual(plain(values.map((each) => percent(each))), [
    "27.0 %",
    "2.8 %",
    "0.30 %",
    "99.9 %",
    "99.96 %",
    "0 %",
    "100 %",
    "0.0032 %",
    "under 0.0001 %",
    "over 99.99 %",
  ]);
  const pairs = [
    [0.3333, 0.3274],
    [0.33334, 0.33327],
    [0.25, null],
    [0.01, 0.009985],
  ];
  assert.deepEqual(
    pairs.map(([p, q]) => plain(compared(p, q))),
    [
      ["33.3 %", "32.7 %"],
      ["33.334 %", "33.327 %"],
      ["25.0 %", "—"],
      ["1.00 %", "0.999 %"],
    ],
  );
  assert.deepEqual(plain(inProportion(0.1037, 0.1071, "0.968")), ["10.37 %", "10.71 %"]);
});

test("a written sum adds up in the shown digits, or it is not shown", () => {
  const random = (seed) => (seed * 0.6180339887 + seed * seed * 0.0000271) % 1;
  let count = 0;
  for (let seed = 1; seed <= 3000; seed += 1) {
    const shares = [1, 2, 3].map((each) => random(3 * seed + each) ** (1 + (seed % 5)));
    const sum = shares[0] + shares[1] * shares[2];
    const result = percent(Math.min(1, sum));
    const texts = reckoned(shares, result, ([own, lost, then]) => own + lost * then);
    if (!texts || sum >= 1) continue;
    count += 1;
    const [own, lost, then, shown] = [...texts, result].map((text) =>
      /under/.test(text) ? 0 : parseFloat(text),
    );
    const places = /\.(\d+)/.exec(result)?.[1].length ?? 0;
    if (!result.includes("over"))
      assert.equal(
        (own + (lost * then) / 100 + 1e-10).toFixed(places),
        shown.toFixed(places),
        `${texts} ${result}`,
      );
    assert.ok(
      texts.every((text) => text.replace(/^0\.0*|\D/g, "").length <= 6),
      `${texts}`,
    );
  }
  assert.ok(count > 1500, `${count}`);
});

test("a token is named by its text on one line, and a space by its name", () => {
  assert.deepEqual([" ", " a", "\n", ""].map(tokenLabel), ["⟨space⟩", "·a", "⏎", "∅"]);
});

test("a draw and its threshold are rounded in the same way, and never to the same number", () => {
  // The pairs are from the doctest of `drawn` in specviz/figures/labels.py.
  const pairs = [
    [0.1042, 0.9951],
    [0.10423, 0.10418],
    [1, 0.99996],
    [0.00002, 0.5],
    [0.000089255, 0.0000892549],
    [2.96e-8, 0.5],
    [0.99999997, 0.5],
  ];
  assert.deepEqual(
    pairs.map(([threshold, draw]) => drawn(threshold, draw)),
    [
      ["0.104", "0.995"],
      ["0.10423", "0.10418"],
      ["1", "0.99996"],
      ["0.000020", "0.500"],
      ["0.0000892550", "0.0000892549"],
      ["under 0.00001", "0.500"],
      ["over 0.999999", "0.500"],
    ],
  );
  assert.deepEqual([0.5, 0.0000892549, 8.9e-7].map(whole), ["0.5", "0.0000892549", "0.00000089"]);
});

test("an estimate of seconds is not written with more digits than it deserves", () => {
  assert.deepEqual([0.4, 12.3, 89, 100].map(timeWords), [
    "less than a second",
    "about 12 s",
    "about 89 s",
    "about 2 min",
  ]);
  assert.equal(leftWords(undefined), "");
  assert.equal(leftWords(30), " · about 30 s left");
});

test("a shortened label keeps its HTML entities whole", () => {
  assert.equal(cut("&lt;b&gt;x", 9), "&lt;b&gt;x");
  assert.equal(cut("&lt;b&gt;x", 3), "&lt;b…");
  assert.equal(cut("abc", 0), "a…");
});

test("a waiting visitor sees how many runs are ahead and what runs now", () => {
  assert.equal(waitingWords(0, null), "starting …");
  assert.equal(
    waitingWords(1, { title: "a race", seconds_left: 30 }),
    "waiting: 1 run is ahead of yours: a race · about 30 s left",
  );
  assert.equal(
    waitingWords(2, { title: "a race", seconds_left: null }),
    "waiting: 2 runs are ahead of yours; now a race",
  );
  assert.equal(waitingWords(3, null), "waiting: 3 runs are ahead of yours");
  const given = "this run gave its slot to a visitor who had none, and continues by itself";
  assert.equal(
    waitingWords(1, { title: "a race", seconds_left: null, has_given: true }),
    `${given}: 1 run is ahead of yours: a race`,
  );
  const short = "waiting until another run ends, because the server is short of memory";
  assert.equal(
    waitingWords(1, { title: "a race", seconds_left: null, lacks_memory: true }),
    `${short}: 1 run is ahead of yours: a race`,
  );
});
