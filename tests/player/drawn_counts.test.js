// Sentences about repeated draws: during the series, at its end, and at temperature 0.

import assert from "node:assert/strict";
import test from "node:test";

import { finding, findingWords, verdictWords } from "../../assets/player/shared/drawn_counts.js";

const COUNTS = {
  draws: 2000,
  accepted: 900,
  is_other: false,
  distance: {
    total_variation: 0.021,
    noise_floor: 0.019,
    chi_square: 12.3,
    degrees_of_freedom: 9,
    p_value: 0.2,
    forbidden: 0,
  },
};

test("during a series of draws there is no verdict yet", () => {
  const words = verdictWords(COUNTS, false, false);
  assert.match(words, /2,000 draws, 45 % of the guesses kept/);
  assert.doesNotMatch(words, /distribution|difference/);
});

test("at the end the result of the test is said in plain words", () => {
  assert.match(
    verdictWords(COUNTS, true, false),
    /is 12 \(chi-square\).*about 9 \(the degrees of freedom\).*20 %.*No difference from the target is visible/,
  );
  const other = { ...COUNTS, is_other: true, distance: { ...COUNTS.distance, p_value: 1e-9 } };
  assert.match(
    verdictWords(other, true, false),
    /less than one in 1,000.*This is another distribution/,
  );
});

test("a single token that the target cannot write decides the test", () => {
  const never = { ...COUNTS, is_other: true, distance: { ...COUNTS.distance, forbidden: 3 } };
  assert.match(
    verdictWords(never, true, false),
    new RegExp(`probability 0 in the target.*${findingWords(never)}`),
  );
});

test("a p-value from 1 in 1,000 to 1 in 20 decides nothing, and the words do not call the rule exact", () => {
  const found = (p_value, is_other = false) =>
    finding({ is_other, distance: { ...COUNTS.distance, p_value } });
  assert.deepEqual([found(0.2), found(0.006), found(1e-5, true)], ["none", "undecided", "other"]);
  const words = verdictWords(
    { ...COUNTS, distance: { ...COUNTS.distance, p_value: 0.006 } },
    true,
    false,
  );
  assert.match(words, /not decided.*More draws tell/);
  assert.doesNotMatch(words, /No difference/);
});

test("at temperature 0 there is nothing to count", () => {
  assert.match(verdictWords(COUNTS, true, true), /one token is certain/);
});
