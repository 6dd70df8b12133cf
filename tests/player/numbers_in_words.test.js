// Numbers as the page says them: probabilities, seconds, who waits.

import assert from "node:assert/strict";
import { test } from "node:test";

import { cut } from "../../assets/player/shared/charts.js";
import { compared, drawn, leftWords, probability, timeWords, waitingWords, whole } from "../../assets/player/shared/number_words.js";
import { tokenLabel } from "../../assets/player/shared/token_label.js";

test("small probabilities keep their digits, and nothing but 1 reads as 1", () => {
  const values = [0, 1, 0.6014, 0.01, 0.00312, 0.00031, 5e-8, 0.9996, 0.99999, null];
  assert.deepEqual(values.map(probability), ["0", "1", "0.601", "0.010", "0.0031", "3.1e-4", "5e-8", "0.9996", ">0.9999", "—"]);
});

test("p and q beside each other show which is larger, in the decimals of their chart", () => {
  // As in the doctest of `compared` in specviz/figures/labels.py.
  const pairs = [[0.3333, 0.3274], [0.33334, 0.33327], [0.25, null]];
  assert.deepEqual(pairs.map(([p, q]) => compared(p, q)), [["0.333", "0.327"], ["0.33334", "0.33327"], ["0.250", "—"]]);
});

test("a token is named by its text on one line, and a space alone by its name", () => {
  assert.deepEqual([" ", " a", "\n", ""].map(tokenLabel), ["⟨space⟩", "·a", "⏎", "∅"]);
});

test("a draw and its threshold are rounded alike, and never to the same number", () => {
  // As in the doctest of `drawn` in specviz/figures/labels.py.
  const pairs = [[0.1042, 0.9951], [0.10423, 0.10418], [1, 0.99996], [0.00002, 0.5], [0.000089255, 0.0000892549], [2.96e-8, 0.5], [0.99999997, 0.5]];
  assert.deepEqual(pairs.map(([threshold, draw]) => drawn(threshold, draw)), [["0.104", "0.995"], ["0.10423", "0.10418"], ["1", "0.99996"], ["0.000020", "0.500"], ["0.0000892550", "0.0000892549"], ["3e-8", "0.500"], [">0.9999", "0.500"]]);
  assert.deepEqual([0.5, 0.0000892549, 8.9e-7].map(whole), ["0.5", "0.0000892549", "0.00000089"]);
});

test("a guess of seconds is told no more exactly than it deserves", () => {
  assert.deepEqual([0.4, 12.3, 89, 100].map(timeWords), ["less than a second", "about 12 s", "about 89 s", "about 2 min"]);
  assert.equal(leftWords(undefined), "");
  assert.equal(leftWords(30), " · about 30 s left");
});

test("a label that is cut keeps its entities whole", () => {
  assert.equal(cut("&lt;b&gt;x", 9), "&lt;b&gt;x");
  assert.equal(cut("&lt;b&gt;x", 3), "&lt;b…");
  assert.equal(cut("abc", 0), "a…");
});

test("whoever waits is told how many are ahead and what runs now", () => {
  assert.equal(waitingWords(0, null), "starting …");
  assert.equal(waitingWords(1, { title: "a race", seconds_left: 30 }), "waiting: 1 run is ahead of yours: a race · about 30 s left");
  assert.equal(waitingWords(2, { title: "a race", seconds_left: null }), "waiting: 2 runs are ahead of yours; now a race");
  assert.equal(waitingWords(3, null), "waiting: 3 runs are ahead of yours");
});
