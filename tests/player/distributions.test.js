// Two distributions at a position: their numbers, and which rows are shown at a moment.

import assert from "node:assert/strict";
import { test } from "node:test";

import { takeSettings } from "../../assets/player/shared/settings.js";
import {
  barsAt,
  divergence,
  ruleDistribution,
  withDraw,
} from "../../assets/player/step/distributions.js";

test("a divergence over the recorded tokens is a lower bound of the divergence over all tokens", () => {
  const [p, q] = [
    [0.5, 0.3, 0.15, 0.05],
    [0.25, 0.25, 0.25, 0.25],
  ];
  const whole = divergence(p, q);
  const exact = p.reduce((sum, each, at) => sum + each * Math.log(each / q[at]), 0);
  assert.ok(whole <= exact && whole > exact - 1e-4);
  for (const kept of [1, 2, 3]) assert.ok(divergence(p.slice(0, kept), q.slice(0, kept)) <= exact);
  assert.ok(divergence(p, p) < 1e-5);
  const overlap = 0.05; // Pinsker's inequality: the divergence is at least twice the square of the total variation
  assert.ok(divergence([0.95, 0.05], [0, 1]) > 2 * (1 - overlap) ** 2);
});

const SAMPLING = [
  { name: "top_k", part: "sampling", off: 0, word: "top-k" },
  { name: "top_p", part: "sampling", off: 1, word: "top-p" },
];

test("the rule's distribution is named by the settings that made it", () => {
  takeSettings(SAMPLING);
  assert.equal(ruleDistribution({ temperature: 0, top_k: 0, top_p: 1 }), null);
  assert.equal(
    ruleDistribution({ temperature: 0.7, top_k: 40, top_p: 0.9 }),
    "T = 0.7, top-k 40, top-p 0.9",
  );
});

const bar = (role, x) => ({
  meta: { role },
  x,
  y: [0, 1],
  width: [0.3, 0.3],
  text: ["", ""],
  customdata: [0, null],
});
const figure = {
  data: [
    bar("target", [0.7, 0.2]),
    bar("draft", [0.1, 0.6]),
    {
      meta: { role: "ink" },
      x: [0.3, 0.3],
      text: ["", " u = 0.30 "],
      textposition: "middle right",
    },
  ],
  layout: {
    yaxis: { tickvals: [0, 1, 2], ticktext: ["a", "b", "min(1, p/q)"] },
    meta: {
      drafted: {
        bars: {
          x: [0.6, 0.4],
          y: [0, 1],
          width: [0.3, 0.3],
          text: ["0.60", "0.40"],
          customdata: [3, null],
        },
        axis: { tickvals: [0, 1], ticktext: ["b", "other"] },
      },
    },
  },
};

test("before the target has run, only the draft's tokens are shown, and no p", () => {
  const { data, layout } = barsAt(figure, "drafted");
  assert.deepEqual(
    data.map(({ meta }) => meta.role),
    ["draft"],
  );
  assert.deepEqual(
    [data[0].x, data[0].text, data[0].customdata],
    [
      [0.6, 0.4],
      ["0.60", "0.40"],
      [3, null],
    ],
  );
  assert.deepEqual(layout.yaxis, { tickvals: [0, 1], ticktext: ["b", "other"] });
});

test("before the verdict neither the draw nor its threshold is shown", () => {
  const { data, layout } = barsAt(figure, "verified");
  assert.deepEqual(
    data.map(({ meta }) => meta.role),
    ["target", "draft"],
  );
  assert.deepEqual(layout.yaxis.ticktext, ["a", "b", ""]);
});

test("another draw moves only the pin", () => {
  const { data } = withDraw(figure, 0.9, 0.25);
  assert.deepEqual(
    [data[2].x, data[2].text, data[2].textposition],
    [[0.9, 0.9], ["", " u = 0.900 "], "middle left"],
  );
  assert.deepEqual(data.slice(0, 2), figure.data.slice(0, 2));
});
