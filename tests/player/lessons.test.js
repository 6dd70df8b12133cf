// The parts of the course that need no page: parts of texts, formats of numbers, questions whose
// right answer depends on a measurement, and two distributions whose bars can be dragged.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  rightOption,
  typedNumber,
  typedOption,
  undecidedWords,
} from "../../assets/player/learn/lesson_answers.js";
import { textParts, written } from "../../assets/player/learn/lesson_text.js";
import { pieces, RecordedGame } from "../../assets/player/learn/widgets/recorded_game.js";
import {
  blockNumbers,
  blockPossible,
  gainOf,
} from "../../assets/player/learn/widgets/block_numbers.js";
import {
  chainGuesses,
  examined as walkOf,
  keptAsBlock,
  keptByToken,
  owedAfter,
} from "../../assets/player/learn/widgets/chain_verdicts.js";
import { copiedNumbers, firstFailure } from "../../assets/player/learn/widgets/copied_rounds.js";
import { freeNumbers, markedCounts } from "../../assets/player/learn/widgets/free_numbers.js";
import { clockNumbers, clockRound } from "../../assets/player/learn/widgets/clock_rounds.js";
import { isRead } from "../../assets/player/learn/widgets/eagle_moment.js";
import {
  quantisedNumbers,
  quantisedPossible,
  serversNumbers,
  serversPossible,
  shareRange,
} from "../../assets/player/learn/widgets/engine_numbers.js";
import {
  raceNumbers,
  racePossible,
  runningRates,
} from "../../assets/player/learn/widgets/race_counts.js";
import {
  fromPositions,
  fromTotal,
  rateNumbers,
} from "../../assets/player/learn/widgets/rate_numbers.js";
import { batchNumbers } from "../../assets/player/learn/widgets/ragged_rows.js";
import {
  roundingNumbers,
  shuffled,
  sum32,
} from "../../assets/player/learn/widgets/rounding_places.js";
import {
  byDepth,
  childrenOf,
  ends,
  noiseWords,
  possibleValues,
  rangeOf,
  settingWords,
  SHOWN,
  treeMarkup,
} from "../../assets/player/learn/widgets/sweep_points.js";
import {
  drawnSibling,
  mayLook,
  triedBefore,
} from "../../assets/player/learn/widgets/tree_paths.js";
import { roundWords } from "../../assets/player/shared/batch_rows.js";
import { leadRange, TypedGame } from "../../assets/player/learn/widgets/typed_game.js";
import { ForwardTimes } from "../../assets/player/learn/widgets/forward_times.js";
import {
  acceptance,
  barsOf,
  beyond,
  changed,
  overlap,
} from "../../assets/player/learn/widgets/two_distributions.js";
import { doubledBin, RedrawFromTarget } from "../../assets/player/learn/widgets/wrong_redraw.js";
import { Redraw } from "../../assets/player/shared/redraw.js";
import {
  oracleRounds,
  stopNumbers,
  stopPossible,
  stopValues,
  typicalSeconds,
} from "../../assets/player/learn/widgets/stop_numbers.js";

const near = (one, other, by = 1e-9) =>
  assert.ok(Math.abs(one - other) < by, `${one} is not ${other}`);

test("a text consists of plain parts, values, terms, emphasis and code", () => {
  const parts = textParts("*So* {p} of [guesses](accepted) pass `min`.");
  assert.deepEqual(
    parts.map(({ kind }) => kind),
    ["strong", "plain", "value", "plain", "term", "plain", "code", "plain"],
  );
  assert.deepEqual(parts[2], { kind: "value", text: "", name: "p" });
  assert.deepEqual(parts[4], { kind: "term", text: "guesses", name: "accepted" });
  assert.equal(parts.map(({ text }) => text).join(""), "So  of guesses pass min.");
});

test("values are written in their formats, and an unknown value is written as unknown", () => {
  assert.equal(written(0.352, "probability"), "0.352");
  assert.equal(written(0.355, "percent"), "36 %");
  assert.equal(written(0.9968, "percent"), "99.7 %");
  assert.equal(written(0.002, "percent"), "0.2 %");
  assert.equal(written(1000, "count"), "1,000");
  assert.equal(written(1.425, "times"), "1.43×");
  assert.equal(written(0.0123, "milliseconds"), "12.3 ms");
  assert.equal(written(1.5467, "milliseconds"), "1,547 ms");
  assert.equal(written(" the", "token"), "·the");
  assert.equal(written(undefined, "count"), "…");
});

test("if a value decides, the right answer is the one whose bounds contain it", () => {
  const options = [
    { name: "little", low: null, high: 2 },
    { name: "much", low: 2, high: null },
  ];
  assert.equal(rightOption({ options, value: "ratio" }, { ratio: 1.9 }).name, "little");
  assert.equal(rightOption({ options, value: "ratio" }, { ratio: 2 }).name, "much");
  assert.equal(rightOption({ options, value: "ratio" }, {}), undefined);
  assert.equal(
    rightOption(
      {
        options: [
          { name: "a", right: false },
          { name: "b", right: true },
        ],
        value: "",
      },
      {},
    ).name,
    "b",
  );
});

test("an answer is right only if every value that the measurement allows gives it", () => {
  const step = {
    options: [
      { name: "little", low: null, high: 2 },
      { name: "much", low: 2, high: null },
    ],
    value: "ratio",
  };
  const possible = (...values) => ({ ratio: { values, words: "1.5 to 2.5." } });
  assert.equal(rightOption(step, { ratio: 1.9 }, possible(1.8, 1.95)).name, "little");
  assert.equal(undecidedWords(step, { ratio: 1.9 }, possible(1.8, 1.95)), "");
  assert.equal(rightOption(step, { ratio: 1.9 }, possible(1.5, 2.5)), undefined);
  assert.equal(
    undecidedWords(step, { ratio: 1.9 }, possible(1.5, 2.5)),
    "1.5 to 2.5. This measurement allows more than one of these answers.",
  );
  assert.equal(undecidedWords(step, {}, {}), "It has not been measured.");
  assert.equal(undecidedWords({ ...step, value: "" }, {}, {}), "");
});

const PLAN = {
  drawing: "independent",
  ids: [1, 2, 3, 4, 5, 6, null],
  p: [0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.02],
  q: [0.1, 0.2, 0.02, 0.5, 0.03, 0.05, 0.1],
  guesses: [{ bin: 3, passes: true }],
  shared: 0.01,
};

test("a few bars show the guess and the most probable words, with the overlap over all words", () => {
  const bars = barsOf(PLAN, 4);
  assert.equal(bars.labels.length, 5);
  assert.equal(bars.labels[bars.guess], "5");
  assert.equal(bars.labels.at(-1), null);
  for (const which of ["p", "q"])
    near(
      bars[which].reduce((sum, each) => sum + each, 0),
      1,
    );
  const all =
    PLAN.p.slice(0, -1).reduce((sum, p, at) => sum + Math.min(p, PLAN.q[at]), 0) + PLAN.shared;
  near(overlap(bars), all);
});

test("a dragged bar takes probability from the others in proportion", () => {
  assert.deepEqual(
    changed([0.5, 0.3, 0.2], 0, 0.75).map((each) => each.toFixed(3)),
    ["0.750", "0.150", "0.100"],
  );
  assert.deepEqual(changed([1, 0, 0], 0, 0.5), [0.5, 0.25, 0.25]);
  near(
    changed([0.5, 0.3, 0.2], 1, 0).reduce((sum, each) => sum + each, 0),
    1,
  );
});

test("a guess is accepted with probability min(1, p/q)", () => {
  near(acceptance(0.352, 0.932), 0.352 / 0.932);
  assert.equal(acceptance(0.4, 0.1), 1);
  assert.equal(acceptance(0, 0.3), 0);
});

test("drawing replacements from p writes some words too often, and drawing them from the residual does not", () => {
  const [wrong, right] = [RedrawFromTarget, Redraw].map((Rule) => new Rule(PLAN, 5));
  for (const made of [wrong, right]) made.draw(20000);
  const thrown = 1 - overlap(barsOf(PLAN, 3));
  near(wrong.share(3), 0.1 + thrown * 0.1, 0.01);
  assert.ok(wrong.distance > 10 * wrong.floor);
  assert.ok(right.distance < 2.5 * right.floor);
});

test("the word that is written too often is known before any draw, and draws show it", () => {
  const bin = doubledBin(PLAN);
  const wrong = new RedrawFromTarget(PLAN, 5);
  wrong.draw(20000);
  const gaps = PLAN.p.slice(0, -1).map((p, each) => wrong.share(each) - p);
  assert.equal(bin, gaps.indexOf(Math.max(...gaps)));
});

test("guesses of a sweep are counted by depth over all its points", () => {
  const points = [
    [
      [1, 4, 3],
      [2, 3, 1],
    ],
    [
      [1, 6, 6],
      [2, 6, 3],
      [3, 0, 0],
    ],
  ].map((rows) => ({
    acceptance_by_depth: rows.map(([depth, reached, passed]) => ({ depth, reached, passed })),
  }));
  assert.deepEqual(byDepth(points), [
    { depth: 1, reached: 10, passed: 9 },
    { depth: 2, reached: 9, passed: 4 },
  ]);
});

test("a tree's picture has a dot for its root and each guess, and no two dots overlap", () => {
  for (const [tree, guesses] of [
    ["1x1x1x1x1x1", 6],
    ["2x1x1", 6],
    ["2x2", 6],
    ["6", 6],
    ["3x2", 9],
  ]) {
    const places = [...treeMarkup(childrenOf(tree)).matchAll(/cx="([^"]+)" cy="([^"]+)"/g)].map(
      ([, x, y]) => `${x} ${y}`,
    );
    assert.equal(places.length, guesses + 1, tree);
    assert.equal(new Set(places).size, places.length, tree);
  }
});

test("a speedup is shown with the spread of its repeats and with the noise of plain decoding", () => {
  const point = {
    speedup: 1.1,
    acceptance_rate: 0.5,
    setting: { tree: "2x1" },
    speedups: [0.9, 1.1, 1.2],
    speedup_spread: [0.9, 1.2],
  };
  const six = {
    setting: { tree: "6" },
    rounds: 67,
    acceptance_rate: 0.8,
    block_efficiency: 118 / 67,
    acceptance_by_depth: [{ depth: 1, reached: 65, passed: 52, rate: 0.8 }],
  };
  assert.equal(
    SHOWN.tokens.note(six),
    "80 % of examined places pass; of 67 looks 2 examined nothing and 1 was cut short by the text’s end",
  );
  assert.equal(
    SHOWN.tokens.note({ ...six, rounds: 65, block_efficiency: 1.8 }),
    "80 % of examined places pass",
  );
  assert.equal(SHOWN.speedup.note(point), "0.90 to 1.20 in 3 runs; 50 % of examined places pass");
  assert.equal(
    SHOWN.speedup.note({ ...point, setting: {}, acceptance_rate: null, speedups: [1.1] }),
    "one run",
  );
  assert.match(noiseWords([0.9, 0.95]), /gave 0.90× to 1.00×/);
  assert.equal(noiseWords([]), "");
});

test("a drawn second sibling is verified against max(0, p - q)", () => {
  const verdicts = [
    { p: 0.1, q: 0.3 },
    { p: 0.8, q: 0.6, residual: 0.5 },
  ];
  const round = {
    record: { tree: { drawing: "independent", nodes: { parent: [-1, -1] } } },
    outcomes: ["rejected", "accepted"],
    verdict: (node) => verdicts[node],
  };
  const found = drawnSibling(round, 1);
  near(found.taken_beyond, 0.2);
  near(found.owed, 0.4);
  assert.equal(
    drawnSibling({ ...round, record: { tree: { ...round.record.tree, drawing: "chosen" } } }, 1)
      .owed,
    undefined,
  );
});

test("the rejected probability equals the missing one, however the bars are dragged", () => {
  const bars = barsOf(PLAN, 0);
  for (const q of [bars.q, changed(bars.q, 0, 0.9), changed(bars.q, 1, 0)]) {
    const { thrown, owed } = beyond({ ...bars, q });
    const [lost, due] = [thrown, owed].map((each) => each.reduce((sum, share) => sum + share, 0));
    near(lost, due, 1e-9);
    near(lost, 1 - overlap({ ...bars, q }), 1e-9);
  }
});

test("a forward's time is the fastest of its passes, and rates follow from the model's size", () => {
  const times = new ForwardTimes();
  assert.equal(times.seconds(1), undefined);
  const model = { parameters: 1e6 };
  for (const seconds of [
    [0.03, 0.03],
    [0.02, 0.05],
  ])
    times.take({ counts: [1, 6], seconds, passes: 2, model, weight_bytes: 4e6 });
  assert.ok(times.isWhole);
  assert.deepEqual([times.seconds(1), times.seconds(6), times.seconds(2)], [0.02, 0.03, undefined]);
  near(times.ratio(6), 1.5);
  near(times.bytesPerSecond(1), 4e6 / 0.02);
  near(times.operationsPerSecond(6), (2 * 1e6 * 6) / 0.03, 1);
});

test("several tokens may take less time than one because of noise or faster reads, as the passes show", () => {
  const why = (/** @type {number[][]} */ ...passes) => {
    const times = new ForwardTimes();
    for (const seconds of passes)
      times.take({
        counts: [1, 6],
        seconds,
        passes: passes.length,
        model: null,
        weight_bytes: 4e8,
      });
    return times.whyQuicker(6, true);
  };
  assert.equal(why([0.02, 0.03]), "");
  assert.match(why([0.04, 0.02], [0.03, 0.031]), /only in 1 of 2 passes: that is noise/);
  assert.match(
    why([0.05, 0.04], [0.06, 0.05]),
    /in 2 of 2 passes.*at 10\.0 GB\/s; the one for a single token reads them at 8\.0\./,
  );
});

test("noise is mentioned at once, its cause only after it may be revealed", () => {
  const times = new ForwardTimes();
  times.take({ counts: [1, 6], seconds: [0.05, 0.04], passes: 2, model: null, weight_bytes: 4e8 });
  assert.equal(times.whyQuicker(6, false), "", "not before all passes are there");
  times.take({ counts: [1, 6], seconds: [0.06, 0.05], passes: 2, model: null, weight_bytes: 4e8 });
  assert.match(times.whyQuicker(6, false), /hardly noise/);
  assert.doesNotMatch(times.whyQuicker(6, false), /routine|GB/);
});

const PLACES = [" a", " group", " of", "."].map((token) => ({
  token,
  likely: [
    [token, 0.9],
    [" x", 0.1],
  ],
  rival: [token, " x", " y"],
  seconds: 0.05,
}));
const GAME = { prompt: "?", target: "T", rival: "R", begun: ["An"], places: PLACES };

test("a recorded guess counts up to its first difference, and later words were never examined", () => {
  const game = new TypedGame();
  const recorded = new RecordedGame(GAME);
  game.take(recorded.begin());
  game.take(recorded.judge(" a grope of"));
  assert.deepEqual(game.round.outcomes, ["accepted", "rejected", "unreached"]);
  assert.equal(game.round.extraKind, "recovered");
  assert.deepEqual(
    game.written.map(({ id }) => game.text(id)),
    ["An", " a", " group"],
  );
  assert.deepEqual([game.own.kept, game.own.examined, game.other.kept], [1, 2, 1]);
  game.take(recorded.judge(" of"));
  assert.equal(game.round.extraKind, "bonus");
  assert.deepEqual([game.written.at(-1).origin, game.hasEnded], ["bonus", true]);
});

test("looking at a recorded text does not advance it, and typed text is split into tokens and words", () => {
  const recorded = new RecordedGame(GAME);
  recorded.begin();
  recorded.judge("", false);
  assert.equal(recorded.at, 0);
  assert.deepEqual(pieces(" a group by itself ", [" a", " group", " of"]), [
    " a",
    " group",
    " by",
    " itself",
    " ",
  ]);
  assert.deepEqual(pieces("", [" a"]), []);
});

test("a node sees its own path, and its rejected siblings were examined before it", () => {
  const round = {
    record: { tree: { nodes: { parent: [-1, 0, 0, 1, 1] } } },
    outcomes: ["accepted", "rejected", "accepted", "unreached", "unreached"],
  };
  assert.deepEqual(mayLook(round, 4), [-1, 0, 1, 4]);
  assert.deepEqual(mayLook(round, -1), [-1]);
  assert.deepEqual(triedBefore(round, 2), [1]);
});

test("the best and the worst point of a sweep are named by their shown values", () => {
  const point = (tree, speedup, rate) => ({
    setting: { tree },
    speedup,
    acceptance_rate: rate,
    block_efficiency: 2,
    draft_utilization: 0.5,
    cost_ratio: 0.1,
    verify_overhead: 0,
  });
  const points = [point("1x1x1", 1.2, 0.4), point("2x1", 0.9, 0.8), point("4", 1.1, 0.6)];
  const words = ({ setting }) => settingWords(setting, {});
  const found = ends(points, SHOWN.speedup, words);
  assert.deepEqual(
    [found.winner, found.best, found.worst],
    [0, "A chain of 3", "2 × 1: 2 branches, 2 deep"],
  );
  assert.equal(ends(points, SHOWN.acceptance, words).winner, 1);
  near(found.trend, 1.1 / 1.2);
  assert.equal(ends([], SHOWN.speedup, words).winner, undefined);
});

const depths = (...rows) =>
  rows.map(([reached, passed], at) => ({ depth: at + 1, reached, passed }));
const wordsOf = ({ setting }) => settingWords(setting, {});

test("two settings of a sweep are told apart only if their repeats do not overlap", () => {
  const timed = (length, ...speedups) => ({
    setting: { "draft-length": length },
    speedup: speedups[1] ?? speedups[0],
    speedups,
  });
  const points = [timed(2, 0.95, 1, 1.22), timed(5, 1.34, 1.45, 1.69), timed(10, 1.35, 1.44, 1.63)];
  const found = possibleValues(points, SHOWN.speedup, wordsOf, [0.83, 1.13]);
  assert.deepEqual([found.winner.values, found.lowest.values], [[1, 2], [0]]);
  assert.equal(
    found.winner.words,
    "K = 5 came to 1.45×; the measurement allows 1.34× to 1.69×. K = 10 came to 1.44×; the measurement allows 1.35× to 1.63×.",
  );
  assert.deepEqual(
    [found.first_speedup.values, found.last_speedup.values],
    [
      [0.95, 1.22],
      [1.35, 1.63],
    ],
  );
  near(found.trend.values[0], 1.35 / 1.22);
  near(found.trend.values[1], 1.63 / 0.95);
  assert.deepEqual(possibleValues([], SHOWN.speedup, wordsOf, []), {});
});

test("a single run is as uncertain as plain decoding compared with itself, and without that comparison it decides nothing", () => {
  const point = { setting: { "draft-length": 2 }, speedup: 1.2, speedups: [1.2] };
  const [low, high] = rangeOf(point, SHOWN.speedup, [0.8, 1.1]);
  near(low, 1.2 * 0.8);
  near(high, 1.2 / 0.8);
  assert.deepEqual(rangeOf(point, SHOWN.speedup, []), [0, Infinity]);
  assert.match(
    possibleValues([point], SHOWN.speedup, wordsOf, []).last_speedup.words,
    /allows 0.00× to any value/,
  );
});

test("a few guesses do not decide whether you or the machine guesses better", () => {
  const of = (kept, examined) => ({ kept, examined, rate: kept / examined });
  const [low, high] = leadRange(of(3, 5), of(5, 8)).lead.values;
  assert.ok(low < -0.05 && high > 0.05);
  assert.ok(leadRange(of(10, 500), of(400, 500)).lead.values[1] < -0.05);
  assert.deepEqual(leadRange({ kept: 0, examined: 0, rate: undefined }, of(1, 2)), {});
});

test("tokens per look are known to two standard errors, which the counts by depth give", () => {
  // Two of the four looks accept nothing, and two accept both guesses. The mean is 1, the variance 1.
  const small = {
    setting: { tree: "1x1" },
    rounds: 4,
    block_efficiency: 2,
    acceptance_rate: 2 / 3,
    acceptance_by_depth: depths([4, 2], [2, 2]),
  };
  assert.deepEqual(rangeOf(small, SHOWN.tokens, []), [1, 3]);
  const sure = {
    setting: { tree: "2" },
    rounds: 4,
    block_efficiency: 1,
    acceptance_rate: 0,
    acceptance_by_depth: depths([4, 0]),
  };
  assert.deepEqual(possibleValues([small, sure], SHOWN.tokens, wordsOf, []).winner.values, [0, 1]);
  const large = { ...small, rounds: 400, acceptance_by_depth: depths([400, 200], [200, 200]) };
  assert.deepEqual(possibleValues([large, sure], SHOWN.tokens, wordsOf, []).winner.values, [0]);
  near(rangeOf(small, SHOWN.acceptance, [])[0], 2 / 3 - 2 * Math.sqrt(((2 / 3) * (1 / 3)) / 6));
});

test("noise of passes, shares of few places and overlapping loads leave a question open", () => {
  const times = new ForwardTimes();
  for (const many of [0.83, 0.96, 0.96, 1, 1.09, 1.1, 1.21])
    times.take({ counts: [1, 6], seconds: [1, many], passes: 7, model: {}, weight_bytes: 1 });
  assert.deepEqual(times.ratioRange(6), [0.96, 1.1]);
  const race = { plain: {}, drafted: {}, rounds: [], speedups: [1.9, 2.1, 2] };
  assert.deepEqual(racePossible(race).speedup.values, [1.9, 2.1]);
  assert.deepEqual(
    shareRange(10, 10).map((each) => each.toFixed(2)),
    ["0.71", "1.00"],
  );
  const { q4_times: speed } = quantisedPossible({
    seconds: { F16: [2, 4], Q4_0: [1, 2] },
    tokens: { F16: 40, Q4_0: 40 },
    agreed: { Q4_0: 36 },
  });
  assert.deepEqual(speed.values, [1, 4]);
  const level = (at_once, ...draft) => ({ at_once, plain: [9, 10], draft });
  assert.deepEqual(
    serversPossible({ levels: [level(1, 11, 12), level(2, 9.5, 11), level(4, 8, 8.5)] }).pays_up_to
      .values,
    [1, 2],
  );
  assert.deepEqual(
    serversPossible({ levels: [level(1, 9.5, 11), level(2, 8, 8.5)] }).pays_up_to.values,
    [0, 1],
  );
});

const RATES = [
  { name: "used", right: false, value: "used" },
  { name: "rate", right: true, value: "rate" },
];
const typed = (text, values, format = "percent") =>
  typedOption({ options: RATES }, values, () => format, typedNumber(text))?.name;

test("a typed number counts in its digits, as a share or in percent, and other text is no number", () => {
  assert.equal(typedNumber("much"), null);
  assert.equal(typedNumber("1.2.3"), null);
  assert.deepEqual(typedNumber(" 66 % "), {
    number: 66,
    isPercent: true,
    places: 0,
    isExact: true,
  });
  assert.equal(typedNumber("1,49").number, 1.49);
  assert.equal(typed("66 %", { rate: 0.6566, used: 0.45 }), "rate");
  assert.equal(typed("0.66", { rate: 0.6566, used: 0.45 }), "rate");
  assert.equal(typed("45", { rate: 0.6566, used: 0.452 }), "used");
  assert.equal(typed("0.5", { rate: 0.54, used: 0.45 }), undefined, "one digit tells too little");
  assert.equal(typed("2.5", { rate: 2.53, used: 0.4 }, "times"), "rate");
  assert.equal(typed("0.65", { rate: 0.6613, used: 0.65 }, "probability"), "used");
  assert.equal(typed("0.66", {}), undefined);
});

test("the right number is recognised before a mistake with the same value", () => {
  assert.equal(typed("0.50", { rate: 0.5, used: 0.5 }), "rate");
});

test("of positions that were computed twice, the smallest margin and those that rounding may decide are named", () => {
  const place = (margin, moved, other = "a") => ({ token: "a", second: "b", other, margin, moved });
  const found = roundingNumbers([place(2, 1e-6), place(0, 0, "b"), place(0.5, 3e-6)]);
  assert.deepEqual(
    [found.margin, found.most_moved, found.near, found.switched, found.places],
    [0, 3e-6, 1, 1, 3],
  );
  assert.equal(roundingNumbers([]).near, undefined);
});

test("float32 numbers have different sums in different orders, and a shuffle keeps every number", () => {
  const numbers = [16777216, 1, 1, 1];
  assert.notEqual(sum32(numbers), sum32(numbers.toReversed()));
  assert.deepEqual(
    shuffled(numbers, () => 0.25).toSorted((a, b) => a - b),
    numbers.toSorted((a, b) => a - b),
  );
});

test("rows of a batch have their own number of tokens per round; in step, all have the smallest", () => {
  const round = (kept) => ({
    guesses: ["x", "y"],
    outcomes: ["x", "y"].map((_, at) => (at < kept ? "accepted" : "rejected")),
    written: Array(kept + 1).fill("t"),
  });
  const rows = [
    { prompt: "lucky", first: "", rounds: [2, 2].map(round) },
    { prompt: "not", first: "", rounds: [0, 1, 0].map(round) },
  ];
  const step = (count, seconds) => ({ seconds, rows: count, tokens: 3 * count, padding: 0 });
  const found = batchNumbers({
    model: "",
    drafter: "",
    length: 2,
    rows,
    plain: [step(2, 0.01)],
    steps: [step(2, 0.02), step(2, 0.02), step(1, 0.02)],
  });
  assert.deepEqual([found.fastest, found.slowest, found.looks], ["lucky", "not", 3]);
  near(found.own_pace, (3 + 3 + 1 + 2) / 4);
  near(found.least_pace, (1 + 2) / 2);
  near(found.price, 2);
  near(found.wasted, 5 / 10);
});

test("a round that drafted ahead is described by its spans before, during and after the verification", () => {
  const record = (hit, draft) => ({
    notes: [{ hit, outcomes: [2, 1], hidden_seconds: 0, waited_seconds: 0 }],
    spans: {
      who: ["draft", "verify", "draft", "host", "draft ahead"],
      start: [0, draft, 10, 11, draft],
      end: [draft, 10, 11, 12, 11],
    },
  });
  const rounds = [
    [false, 6],
    [true, 1],
    [false, 5],
  ].map(([hit, draft]) => clockRound({ record: record(hit, draft), accepted: [0] }));
  assert.deepEqual(
    [rounds[1].prepared, rounds[1].wait, rounds[1].end],
    [3, { who: "draft", start: 10, end: 11 }, 12],
  );
  const found = clockNumbers(rounds);
  assert.deepEqual(
    [found.rounds, found.hits, found.soon, found.late],
    [2, 1, 1, 5],
    "the first round could not be prepared for",
  );
  assert.equal(
    clockRound({ record: { notes: [], spans: { who: [], start: [], end: [] } }, accepted: [] }),
    null,
  );
});

test("an EAGLE head reads the root and the feature of the token before it", () => {
  assert.deepEqual(
    [isRead("token", 0), isRead("feature", 1), isRead("token", 1), isRead("feature", 2)],
    [true, true, false, false],
  );
});

test("the rate counts examined guesses of a race, and the share of all drafted ones is lower", () => {
  const rounds = [
    ["accepted", "rejected", "unreached"],
    ["accepted", "accepted", "accepted"],
  ];
  const found = raceNumbers({
    task: "code",
    length: 3,
    plain: { tokens: 10, seconds: 5 },
    drafted: { tokens: 12, seconds: 3 },
    rounds,
  });
  near(found.speedup, 2);
  near(found.rate, 4 / 5);
  near(found.rate + found.rejection, 1);
  near(found.used, 4 / 6);
  assert.equal(found.per_look, 6);
  assert.deepEqual(runningRates(rounds).acceptance.slice(0, 2), [1, 0.5]);
});

test("a round of a batch is described with its empty slots and the remaining rows", () => {
  const steps = [
    { seconds: 0.0123, rows: 2, tokens: 7, padding: 3 },
    { seconds: 0.01, rows: 1, tokens: 1, padding: 0 },
  ];
  const found = { rows: [{}, {}], steps };
  assert.equal(roundWords(found, 0), "2 prompts have been read. Each row has one token.");
  assert.equal(
    roundWords(found, 1),
    "Round 1 of 2: 7 tokens of 2 rows ran together in 12.3 ms, and 3 positions stayed empty.",
  );
  assert.equal(
    roundWords(found, 2, "Look"),
    "Look 2 of 2: 1 token of 1 row ran together in 10.0 ms.",
  );
});

const COUNTS = { drafts: 10, drafted: 40, accepted: 30, tokens: 42, per_position: [10, 8, 7, 5] };

test("for a quantised target the fastest passes count, and longer forwards are compared with theory", () => {
  const seconds = { F16: [4, 2], Q8_0: [2, 3], Q4_0: [1, 1], drafted: [8, 4] };
  const tokens = { F16: 40, Q8_0: 40, Q4_0: 40, drafted: 40 };
  const found = quantisedNumbers({
    model: "m",
    length: 4,
    texts: 1,
    bytes: { F16: 4e6, Q8_0: 2e6, Q4_0: 1e6 },
    tokens,
    seconds,
    agreed: { F16: 40, Q8_0: 39, Q4_0: 36 },
    is_same: true,
    drafts: COUNTS,
    looks: [1, 3],
  });
  near(found.q4_times, 2);
  near(found.q4_share, 0.9);
  near(found.acceptance, 0.75);
  near(found.per_look, 4);
  near(found.foretold, 4 / (1 + 4 * 0.5));
  near(found.foretold_whole, 4 / (3 + 4 * 0.5));
  near(found.speedup, 0.5);
});

test("drafts pay up to the last load with a gain before the first loss beyond noise", () => {
  const level = (at_once, draft) => ({
    at_once,
    plain: [9, 10, 10],
    draft: [draft, draft],
    acceptance: 0.7,
  });
  const server = (name, drafted, refusal) => ({
    ...COUNTS,
    name,
    drafted,
    health: "ok",
    state: "",
    refusal,
  });
  const servers = [
    server("plain", 0, ""),
    server("draft", 40, ""),
    server("foreign", 0, "another vocabulary"),
  ];
  const of = (...levels) =>
    serversNumbers({
      model: "m",
      length: 4,
      servers,
      compared: { prompts: 4, same: 4, ours: COUNTS, theirs: COUNTS },
      levels,
    });
  assert.equal(of(level(1, 12), level(2, 11), level(4, 8), level(8, 11)).pays_up_to, 2);
  // At level 2, drafts write 9 tokens per second. That is below the median of plain decoding, so
  // drafts do not pay there. But it is not below the slowest plain pass, so it may be noise, and a
  // higher level can still pay.
  assert.equal(of(level(1, 12), level(2, 9), level(4, 11), level(8, 9)).pays_up_to, 4);
  assert.equal(of(level(1, 8), level(2, 12)).pays_up_to, 0);
  const found = of(level(1, 12), level(2, 11));
  near(found.most_speedup, 1.1);
  assert.deepEqual(
    [found.pays_up_to, found.most, found.foreign_drafted, found.same_share],
    [2, 2, 0, 1],
  );
});

// p, q, h and u of a chain whose second guess is unlikely and whose third makes up for it.
const CHAIN = [
  [0.5, 0.4, 1, 0.3],
  [0.1, 0.4, 0.1, 0.6],
  [0.9, 0.3, 0.6, 0.7],
  [0.4, 0.5, 0.6, 0.5],
];

function chain(numbers = CHAIN) {
  return chainGuesses({
    indices: numbers.map((_, at) => at),
    verdict: (at) => ({
      p: numbers[at][0],
      q: numbers[at][1],
      accept: numbers[at][2],
      u: numbers[at][3],
    }),
  });
}

test("token by token keeps a chain up to its first failure, and a block up to the last guess that passes", () => {
  const guesses = chain();
  assert.deepEqual(
    guesses.map(({ carried }) => Number(carried.toFixed(4))),
    [1, 0.25, 0.75, 0.6],
  );
  assert.equal(keptByToken(guesses), 1);
  assert.equal(keptAsBlock(guesses), 4);
  assert.deepEqual(walkOf(guesses, false), [0, 1]);
  assert.deepEqual(walkOf(guesses, true), [3]);
});

test("a block reads the chain from its end until a guess passes", () => {
  const guesses = chain(CHAIN.map(([p, q, h]) => [p, q, h, 0.95]));
  assert.equal(keptAsBlock(guesses), 1);
  assert.deepEqual(walkOf(guesses, true), [3, 2, 1, 0]);
  const none = chain(CHAIN.map(([p, q]) => [p, q, 0, 0.95]));
  assert.equal(keptAsBlock(none), 0);
  assert.deepEqual(walkOf(none, true), [3, 2, 1, 0]);
});

test("what the target can still use after a guess follows from the limit and the carried ratio", () => {
  const { h, carried } = chain()[2];
  const owed = owedAfter({ h, carried });
  near(owed / (owed + 1 - carried), h);
  assert.equal(owedAfter({ h: 1, carried: 1 }), undefined);
});

test("a gain that comes only from rounding counts as none", () => {
  const row = (isCopied, K, token, block) => ({
    is_copied: isCopied,
    K,
    drafts: 10,
    token,
    block,
    low: 0,
    high: 0,
  });
  const rows = [
    row(false, 1, 0.6, 0.6 + 1e-9),
    row(false, 5, 1.5, 1.65),
    row(false, 8, 1.6, 2),
    row(true, 5, 0.4, 0.4),
  ];
  const found = blockNumbers({ temperature: 1, prompts: 20, rows });
  assert.deepEqual([found.one_gain, found.copied_gain], [0, 0]);
  near(found.usual_gain, 0.1);
  near(found.long_gain, 0.25);
  assert.equal(gainOf(row(false, 5, 0, 0)), 0);
  assert.equal(blockNumbers(null).usual_gain, undefined);
  assert.deepEqual(
    blockPossible({ rows: [{ ...rows[1], low: 0.05, high: 0.2 }] }).usual_gain.values,
    [0.05, 0.2],
  );
  assert.deepEqual(blockPossible(null), {});
});

test("copied drafts are counted per drafter and draft length", () => {
  const round = (matched, draft, kept, extra = "!") => ({
    matched: Array(matched).fill("m"),
    draft: Array(draft).fill("d"),
    kept,
    extra,
  });
  const rows = [
    { method: "prompt-lookup", K: 10, rounds: [round(3, 10, 10), round(3, 10, 2), round(0, 0, 0)] },
    { method: "suffix", K: 10, rounds: [round(9, 9, 9), round(14, 4, 4, null)] },
  ];
  const found = copiedNumbers({ model: "m", depth: 24, turns: [], rows }, 10);
  assert.deepEqual(
    [found.prompt_lookup_tokens, found.prompt_lookup_drafted, found.prompt_lookup_longest],
    [15, 20, 10],
  );
  near(found.prompt_lookup_per_round, 5);
  near(found.suffix_per_round, 7);
  near(found.gain, 1.4);
  near(found.prompt_lookup_used, 0.6);
  assert.equal(found.suffix_match, 14);
  assert.deepEqual(
    rows.map(({ rounds }) => firstFailure(rounds)),
    [1, 1],
  );
  assert.equal(copiedNumbers(null, 10).gain, undefined);
});

test("the rates per position contain every other number of a run with complete drafts", () => {
  const [yes, no, unread] = ["accepted", "rejected", "unreached"];
  const rounds = [
    [yes, yes, no],
    [no, unread, unread],
    [yes, yes, yes],
    [yes, no, unread],
    [yes, yes],
  ];
  const found = rateNumbers(rounds, 3);
  assert.deepEqual([found.drafts, found.drafted, found.accepted, found.examined], [4, 12, 6, 9]);
  assert.deepEqual(found.positions, [0.75, 0.5, 0.25]);
  const all = fromPositions(found.positions);
  for (const name of ["alpha", "used", "length"]) near(all[name], found[name]);
});

test("tokens per forward and accepted / drafted convert into each other, but not into the acceptance rate", () => {
  near(fromTotal("length", 3, 4).used, 0.5);
  near(fromTotal("used", 0.5, 4).length, 3);
  assert.equal(fromTotal("used", 0.5, 4).alpha, undefined);
  for (const [name, value, K] of [
    ["length", 6, 4],
    ["length", 0.5, 4],
    ["used", 1.2, 4],
    ["used", 0.5, 0],
    ["length", 2, NaN],
  ]) {
    assert.equal(fromTotal(name, value, K), null, `${name} ${value} with K = ${K}`);
  }
});

test("forced tokens are those with one allowed token, and rounds do not yield the first token", () => {
  const tokens = [1, 29, 1, 2].map((allowed) => ({ text: "x", allowed }));
  const row = (forced, rounds) => ({ drafts_forced: forced > 0, rounds, tokens: 4, forced });
  const found = freeNumbers({ model: "m", K: 5, tokens, rows: [row(0, 3), row(1, 2)] });
  assert.deepEqual([found.free, found.share, found.drafted], [2, 0.5, 1]);
  assert.deepEqual([found.plain_per_round, found.forced_per_round, found.gain], [1, 1.5, 1.5]);
  assert.deepEqual(markedCounts(tokens, new Set([0, 1])), { right: 1, wrong: 1 });
  assert.deepEqual(freeNumbers(null), {});
});

// Rounds of a task: [number of drafted tokens, number of kept tokens] of each.
const stopRow = (task, policy, K, rounds) => ({
  task,
  policy,
  K,
  rounds: rounds.map(([drafted, kept]) => ({ draft: Array(drafted).fill("d"), kept, extra: "!" })),
});

// A round without a draft takes 1 second; with 1 or 2 drafted tokens, it takes 2 or 4 seconds.
const STOPS = {
  rows: [
    stopRow("story", "fixed", 1, [
      [1, 1],
      [1, 0],
      [1, 1],
    ]),
    stopRow("story", "fixed", 2, [
      [2, 1],
      [2, 2],
    ]),
    stopRow("story", "adaptive", 2, [
      [1, 1],
      [2, 2],
    ]),
    stopRow("code", "fixed", 1, [
      [1, 0],
      [1, 0],
    ]),
    stopRow("code", "fixed", 2, [
      [2, 0],
      [2, 0],
    ]),
    stopRow("code", "adaptive", 2, [
      [1, 0],
      [1, 0],
    ]),
  ],
  seconds: [
    [1, 2, 4],
    [1, 2, 3],
    [1, 2, 5],
  ],
};

test("an oracle drafts only the tokens that are kept", () => {
  const rounds = oracleRounds(STOPS.rows[1].rounds);
  assert.deepEqual(
    rounds.map(({ draft, kept }) => [draft.length, kept]),
    [
      [1, 1],
      [2, 2],
    ],
  );
  const { drafted, kept, tokens, speedup } = stopNumbers(rounds, [1, 2, 4]);
  assert.deepEqual([drafted, kept, tokens], [3, 3, 5]);
  near(speedup, 5 / 6);
});

test("the rules to end a draft are compared by the typical times of their rounds", () => {
  assert.deepEqual(typicalSeconds(STOPS.seconds), [1, 2, 4]);
  const found = stopValues(STOPS, "story", "code");
  assert.deepEqual([found.K, found.best, found.moved], [2, 1, 1]);
  near(found.best_speed, 5 / 6);
  near(found.adaptive_share, 1);
  near(found.oracle_gain, 0);
  assert.deepEqual([found.adaptive_drafted, found.adaptive_kept], [3, 3]);
  assert.deepEqual(stopValues(null, "story"), {});
});

test("a question about speed is decided only if the times of every pass give the same answer", () => {
  const { values } = stopPossible(STOPS, "story").adaptive_share;
  // A round with two drafted tokens takes 3 seconds in the second pass and 5 in the third.
  near(values[0], 6 / 7);
  near(values[1], 6 / 5);
});
