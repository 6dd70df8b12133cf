// The page calls slowdowns by their name, and above temperature 0 it calls nothing "identical".

import assert from "node:assert/strict";
import { test } from "node:test";

import { forwardWords } from "../../assets/player/race/lanes.js";
import { memoryWords } from "../../assets/player/lab/cells.js";
import {
  free,
  memory,
  reading,
  Result,
  textVerdict,
  windowOf,
} from "../../assets/player/race/result.js";
import { bytes } from "../../assets/player/shared/memory_words.js";
import { endWords, wholePercents } from "../../assets/player/shared/number_words.js";
import {
  disturbedWords,
  exceeded,
  middleOf,
  serverNumbers,
  serverSpeedupWords,
  speedupOfLanes,
  speedupScope,
  speedupText,
  speedupWord,
  spreadWords,
} from "../../assets/player/shared/speedup_words.js";
import { withoutThousands, withPoint } from "../../assets/player/shared/decimal_comma.js";
import { Trace } from "../../assets/player/shared/trace.js";
import { checkSentence, timeSentence } from "../../assets/player/shared/time_words.js";

test("a decimal comma is read as a point, and a list keeps its commas", () => {
  assert.deepEqual(["0,7", "-,5", " 1,", "3,2,1", "0.7", "x,7"].map(withPoint), [
    "0.7",
    "-.5",
    " 1.",
    "3,2,1",
    "0.7",
    "x,7",
  ]);
});

test("the baseline's share of the reading limit has a row only if memory was measured", () => {
  const [near] = reading({ reading_share: 0.834 });
  assert.deepEqual(
    [near.value, near.label],
    ["83 %", "of the reading limit reached by the baseline"],
  );
  const [cached] = reading({ reading_share: 1.31 });
  assert.deepEqual(cached.value, "131 %");
  assert.match(
    cached.label,
    /: its weights came from the processor’s cache, or other work slowed the measurement of the limit$/,
  );
  assert.deepEqual(
    [reading({ reading_share: null }), reading({}), reading(undefined)],
    [[], [], []],
  );
});

test("free tokens have a row only if the run has a grammar", () => {
  const numbers = { forced_tokens: 21, tokens: 47 };
  const trace = (grammar) => ({ main: { config: { grammar } } });
  const [row] = free(numbers, trace("a+"));
  assert.deepEqual(
    [row.value, row.label, row.term],
    ["21 of 47", "free tokens, which the grammar forced", "forced_token"],
  );
  assert.deepEqual([free(numbers, trace("")), free(undefined, null)], [[], []]);
});

const LANE = { tokens: 40 };

function verdict(temperature, ending, summary) {
  const known = {
    baseline: LANE,
    speculative: LANE,
    first_divergence: null,
    compared: 40,
    ...summary,
  };
  return textVerdict(known, { config: { temperature } }, ending);
}

test("the verdict on the text is true", () => {
  const same = verdict(0, "length", { identical: true });
  assert.deepEqual([same.value, same.label], ["Identical text:", "40 of 40 tokens."]);
  const early = verdict(0, "stopped", { identical: true, compared: 12 });
  assert.deepEqual(
    [early.value, early.label],
    ["Identical text:", "the first 12 tokens, which both have."],
  );
  const other = verdict(0, "length", {
    identical: false,
    first_divergence: { index: 6, margin: 0.25 },
  });
  assert.deepEqual(
    [other.value, other.label],
    ["The texts differ", "from token 7 on: margin 0.25."],
  );
  const tie = verdict(0, null, { identical: false, first_divergence: { index: 6, margin: 1e-5 } });
  assert.match(tie.label, /margin 0\.000010, a numerical tie\.$/);
  const chance = verdict(0.7, "length", { identical: null });
  assert.deepEqual([chance.value, chance.link], ["Same distribution", "#why-exact"]);
  assert.match(chance.label, /may differ/); // a short run at a low temperature may draw the same text twice
  assert.doesNotMatch(`${chance.value} ${chance.label}`, /same text|identical/i); // two different texts are never called identical
  assert.equal(textVerdict(null, undefined, null), null);
  assert.equal(verdict(0.7, null, { baseline: { tokens: 0 } }), null); // there is nothing to compare yet
});

test("the tokens of a forward include the window of lookahead", () => {
  assert.equal(
    windowOf([
      { note: "ngram-match", length: 2, position: 4 },
      { note: "lookahead-state", token_ids: [5, 6, 7] },
    ]),
    3,
  );
});

test("for a method without a draft model the memory of the pair's draft is named", () => {
  const run = {
    header: { target: { bytes: 45e6 }, dtype: "float32" },
    main: { drafter_bytes: 0, draft: null },
  };
  assert.deepEqual(
    [memory(run).value, memory(run).label],
    ["0 MB", "weights added to the target’s 45 MB"],
  );
  assert.match(
    memory(run, 3_400_000).label,
    /45 MB; the pair’s draft model, not used here, would add 3\.4 MB$/,
  );
});

test("a second copy of the weights on the processor is named separately, in whole megabytes", () => {
  const target = { bytes: 651_289_344, parameters: 134_515_008 };
  const run = {
    header: { target, dtype: "float32" },
    main: { drafter_bytes: 0, drafter_cache_bytes: 0, draft: null },
  };
  assert.match(
    memory(run).label,
    /the target’s 651 MB: 538 MB of weights, and a copy of some of them, 113 MB, packed for the processor$/,
  );
  assert.deepEqual(
    [bytes(3_400_000), bytes(45e6), bytes(1.54e9), bytes(12_345)],
    ["3.4 MB", "45 MB", "1.5 GB", "12 kB"],
  );
});

test("the memory of the parts adds up to the shown sum", () => {
  const sum = (/** @type {number} */ weights, /** @type {number} */ cache) => {
    const run = {
      header: { target: { bytes: 45e6 }, dtype: "float32" },
      main: { drafter_bytes: weights, drafter_cache_bytes: cache, draft: null },
    };
    return [memory(run).label.split(" added")[0], memory(run).value];
  };
  assert.deepEqual(sum(9_800_000, 780_000), ["9.8 MB weights and 0.8 MB cache", "+10.6 MB"]);
  assert.deepEqual(sum(95.2e6, 12.3e6), ["95 MB weights and 12 MB cache", "+107 MB"]);
  assert.deepEqual(sum(45.4e6, 12.4e6), ["45.4 MB weights and 12.4 MB cache", "+57.8 MB"]);
  assert.deepEqual(sum(16_423_680, 393_216), ["16.4 MB weights and 0.4 MB cache", "+16.8 MB"]);
  assert.deepEqual(sum(16_423_680, 12_345), ["16.4 MB weights and 12 kB cache", "+16.4 MB"]);
  assert.deepEqual(sum(9_940_000, 960_000), ["9.9 MB weights and 1.0 MB cache", "+10.9 MB"]);
});

test("the lab counts weights and caches in addition to the target, as the race page does", () => {
  const point = { drafter_bytes: 95.2e6, drafter_cache_bytes: 12.3e6 };
  assert.deepEqual([memoryWords(point), memoryWords(null)], ["107 MB", "–"]);
  assert.equal(
    memoryWords({ drafter_bytes: 94.8e6, drafter_cache_bytes: null }),
    "94.8 MB, weights alone",
  );
});

test("a single run has two digits, and within its noise it is called about equal", () => {
  assert.deepEqual(
    [1.814, 0.98, null].map((each) => speedupText(each)),
    ["1.8×", "1.0×", "–"],
  );
  for (const near of [0.86, 0.92, 0.98, 1, 1.07, 1.149])
    assert.equal(speedupWord(near, "length"), "the baseline’s speed: about equal");
  for (const faster of [1.151, 1.3])
    assert.equal(speedupWord(faster, "length"), "the baseline’s speed: faster");
  assert.equal(speedupWord(0.7, "length"), "the baseline’s speed: slower");
  assert.equal(
    speedupWord(0.7, "stopped"),
    "the baseline’s speed: slower, up to where it was stopped",
  );
});

test("a speedup of texts of different length names the lengths", () => {
  const scope = (plain, ours, tokens) =>
    speedupScope({
      baseline: { tokens: plain },
      speculative: { tokens: ours },
      speedup_tokens: tokens,
    });
  assert.deepEqual([scope(40, 40, 40), scope(0, 3, 0)], ["", ""]);
  assert.equal(scope(40, 64, 40), ", 64 tokens against 40");
  assert.equal(scope(64, 40, 40), ", 40 tokens against 64");
});

test("the headline of a running race is the ratio of the rates that its lanes show", () => {
  const told = racing();
  assert.deepEqual(speedupOfLanes(told, Infinity), {
    speedup: 0.8,
    rates: " (2.0 against 2.5 tokens a second)",
  });
  assert.equal(speedupOfLanes(told, 4)?.rates, " (2.0 against 2.5 tokens a second)"); // 8 tokens against 10
  assert.equal(speedupOfLanes(told, 3.9), null); // 7 tokens are too few for a speedup
  const refs = { speedup: { textContent: "" }, speedupWord: { textContent: "" } };
  Result.prototype.drawLive.call({ refs }, told, Infinity);
  assert.deepEqual(
    [refs.speedup.textContent, refs.speedupWord.textContent],
    ["0.8×", "the baseline’s speed so far (2.0 against 2.5 tokens a second)"],
  );
  Result.prototype.drawLive.call({ refs }, told, 1);
  assert.deepEqual([refs.speedup.textContent, refs.speedupWord.textContent], ["–", "measuring …"]);
});

// Return a race whose speculative lane takes 0.5 s per token and whose baseline takes 0.4 s.
function racing() {
  const trace = new Trace();
  trace.take({
    kind: "header",
    trace: {
      tokens: [],
      lanes: [
        { name: "baseline", kind: "baseline" },
        { name: "speculative", kind: "speculative" },
      ],
    },
  });
  for (const [lane, seconds, count] of [
    [trace.main, 0.5, 20],
    [trace.baseline, 0.4, 16],
  ]) {
    for (let at = 1; at <= count; at += 1) lane.tokens.push({ clock: seconds * at });
  }
  return trace;
}

test("a speedup above what its forwards allow is called impossible", () => {
  assert.deepEqual([exceeded(1.9, 1.9), exceeded(1.4, null), exceeded(2, 1.9)], ["", "", "1.90"]);
  assert.equal(disturbedWords(""), "");
  assert.match(
    disturbedWords("1.90"),
    /^Disturbed: 1.90 tokens per forward allow no more than 1.90×/,
  );
  assert.match(
    spreadWords([1.1, 1.2, 1.3], {}, 1),
    / 1 run above its tokens per forward, .* was disturbed and run again\.$/,
  );
});

test("the slower of two runs is not called the median", () => {
  assert.match(spreadWords([1.1, 1.3]), /^The lower of two runs, /);
  assert.match(spreadWords([1.1, 1.3, 1.2, 1.4]), /^The lower median of 4 runs, /);
  assert.match(spreadWords([1.1, 1.3, 1.2]), /^The median of 3 runs, /);
});

test("several runs show the median, and their spread decides whether there is a difference", () => {
  const runs = [1.22, 0.98, 1.09, 1.12, 1.1];
  assert.equal(middleOf(runs), 1.1);
  assert.equal(speedupText(1.1, runs), "1.10×");
  assert.equal(speedupWord(1.1, "length", runs), "the baseline’s speed: about equal");
  assert.equal(speedupWord(1.1, "length", [1.05, 1.1, 1.2]), "the baseline’s speed: faster");
  assert.equal(
    speedupWord(0.78, "length", [0.63, 0.78, 1.01]),
    "the baseline’s speed: slower, but not in every run",
  );
  assert.equal(spreadWords(runs), "The median of 5 runs, which went from 0.98 to 1.22×.");
  assert.match(
    spreadWords(null, { beside: 1, waited: null }),
    /a tenth\. Measured while 1 other run took turns with it\.$/,
  );
});

// Return the numbers of a run with `rounds` rounds, with seconds and tokens per round. The baseline
// writes 11 tokens; each token after the first takes 0.1 s.
function measured(rounds, draft, verify, tokens) {
  const speculative = {
    target_forwards: rounds + 1,
    tokens: 1 + rounds * tokens,
    block_efficiency: tokens,
    ttft_seconds: 0.2,
  };
  Object.assign(speculative, {
    draft_seconds: rounds * draft,
    verify_seconds: rounds * verify,
    host_seconds: 0,
    seconds: 0.2 + rounds * (draft + verify),
  });
  return { baseline: { tokens: 11, seconds: 1.2, ttft_seconds: 0.2 }, speculative };
}

test("one sentence on the parts of the time explains a gain or a loss", () => {
  assert.equal(
    timeSentence(measured(4, 0.03, 0.12, 2.5)),
    "A round takes as long as 1.5 steps of the baseline and brings 2.50 tokens: this is a gain.",
  );
  assert.equal(
    timeSentence(measured(4, 0.12, 0.14, 2)),
    "A round takes as long as 2.6 steps of the baseline, 46 % of it drafting, and brings 2.00 tokens: a loss. To break even, it would have to bring 2.60.",
  );
  assert.match(timeSentence(measured(4, 0.05, 0.15, 2)), /: about even\.$/);
  assert.equal(timeSentence(measured(0, 0, 0, 2)), "");
  // A round takes 0.15 s, as long as 1.5 steps of the baseline. So a gain needs more than 1.5
  // tokens per round.
  const told = (speedup, tokens, speedups) =>
    timeSentence({ ...measured(4, 0.03, 0.12, tokens), speedup }, speedups).split(" tokens: ")[1];
  assert.deepEqual([told(1.1, 1.7), told(0.9, 1.3)], ["about even.", "about even."]); // 1.13 and 0.87 times as fast
  assert.deepEqual([told(1.2, 1.7), told(1.3, 2)], ["this is a gain.", "this is a gain."]);
  assert.equal(
    told(1.1, 2),
    "a gain, but a small one for the whole run, which also reads the prompt.",
  );
  assert.match(
    told(0.9, 1.2),
    /^a loss, but a small one for the whole run, .* To break even, it would have to bring 1\.50\.$/,
  );
  assert.match(told(0.8, 1.3), /^a loss\. To break even/);
  assert.deepEqual(
    [told(1.1, 1.6, [1.05, 1.1, 1.2]), told(1.1, 1.6, [0.9, 1.1, 1.2])],
    ["this is a gain.", "about even."],
  );
  const late = measured(4, 0.03, 0.12, 2.5);
  late.speculative.ttft_seconds = 0.43;
  late.speculative.seconds += 0.23;
  assert.match(
    timeSentence(late),
    / this is a gain\. The first token took 430 ms instead of 200 ms, which the speedup includes\.$/,
  );
});

test("the times of the run show that several tokens are verified in about the time of one", () => {
  const about = checkSentence(measured(4, 0.03, 0.12, 2.5), 6);
  assert.match(
    about,
    /^Checking 6 tokens in one forward took 120 ms, and writing a single token took 100 ms\. Both read every weight once/,
  );
  // The sentence shows as many digits of a time as the bar of the chart.
  assert.match(
    checkSentence(measured(4, 0.03, 0.2012, 2.5), 25.3),
    /took 201 ms, and writing a single token took 100 ms/,
  );
  assert.match(
    checkSentence(measured(4, 0.03, 1.2, 2.5), 61.25),
    /^Checking 61\.3 tokens .* more arithmetic\.$/,
  );
  assert.deepEqual(
    [checkSentence(measured(0, 0, 0, 2), 6), checkSentence(measured(4, 0.03, 0.12, 2.5), 1)],
    ["", ""],
  );
});

test("the prompt's forward is counted separately, so that the other forwards are the rounds", () => {
  assert.deepEqual([0, 1, 2, 24].map(forwardWords), [
    "reading the prompt",
    "prompt + 0 target forwards",
    "prompt + 1 target forward",
    "prompt + 23 target forwards",
  ]);
});

test("a comma that does not separate thousands is not part of a whole number", () => {
  assert.deepEqual(["4,000", " 4000 ", "0,5", "12,34"].map(withoutThousands), [
    "4000",
    "4000",
    "0,5",
    "12,34",
  ]);
});

test("the share of drafting in a sentence equals that of the bar", () => {
  assert.deepEqual(wholePercents([0.6124, 0.3828, 0.0048]), [61, 38, 1]);
  assert.deepEqual(wholePercents([0.745, 0.2501, 0.0049]), [75, 25, 0]);
  assert.match(timeSentence(measured(4, 0.7449, 0.2551, 2)), /, 7[45] % of it drafting, /);
});

test("the end of a run says how many other runs were measured at the same time", () => {
  assert.equal(
    endWords({ beside: 2, waited: null }),
    "measured while 2 other runs took turns with it",
  );
  assert.match(endWords({ waited: 0.336 }), /^other work used the processor for 34 % of the time/);
  assert.equal(endWords({ limit: "over", waited: 0.5 }), "over");
});

// Return two servers of one model that have each written `written` tokens.
function servers({ speedup, tokens = 32, written = 32, model = "m", ...of }) {
  const lane = (name, engine) => ({
    name,
    isEngine: true,
    hasEnded: true,
    tokens: Array(written),
    engine: { engine: "vLLM", version: "1", ...engine },
    rateAt: () => 40,
  });
  const lanes = [
    { isEngine: false },
    lane("server", { model: "m" }),
    lane("plain-server", { model }),
  ];
  return {
    summary: { server_speedup: speedup, server_speedup_tokens: tokens },
    lanes,
    isLive: false,
    ...of,
  };
}

test("an engine's own speedup is shown with the noise of one run or the spread of several", () => {
  assert.equal(
    serverSpeedupWords(servers({ speedup: 1.62 }), null),
    "With drafts vLLM has 1.6× the plain server’s speed: faster.",
  );
  assert.equal(
    serverSpeedupWords(servers({ speedup: 1.07 }), null),
    "With drafts vLLM has 1.1× the plain server’s speed: about equal.",
  );
  assert.equal(
    serverSpeedupWords(servers({ speedup: 0.7, tokens: 20 }), null),
    "With drafts vLLM has 0.7× the plain server’s speed: slower, answers of 32 and 32 tokens.",
  );
  assert.equal(
    serverSpeedupWords(servers({ speedup: 9 }), [1.5, 1.7, 1.6]),
    "With drafts vLLM has 1.60× the plain server’s speed: faster (1.50 to 1.70× in 3 runs).",
  );
  assert.match(
    serverSpeedupWords(servers({ speedup: 2, model: "m-q4" }), null),
    /^With drafts the server has .* not what drafts alone bring\.$/,
  );
  assert.equal(serverSpeedupWords(servers({ speedup: null, tokens: 0 }), null), "");
  assert.equal(serverSpeedupWords({ summary: null, lanes: [], isLive: true }, null), "");
});

test("servers that were stopped after a few tokens get no speedup", () => {
  const few = servers({ speedup: 3, tokens: 4 });
  for (const lane of few.lanes) lane.hasEnded = false;
  assert.equal(serverSpeedupWords(few, null), "The servers wrote too little to compare.");
  assert.equal(serverSpeedupWords({ ...few, isLive: true }, null), "");
  assert.deepEqual(serverNumbers(few), { speedup: null, rates: {} });
  assert.deepEqual(serverNumbers(servers({ speedup: 3 })), {
    speedup: 3,
    rates: { server: 40, "plain-server": 40 },
  });
});
