// Acceptance and rejection rate, running.

import assert from "node:assert/strict";
import test from "node:test";

import { ratesWords, runningRates } from "../../assets/player/step/running_rates.js";

const chain = (...levels) => ({ levels, outcomes: levels });
const ROUNDS = [chain("accepted", "accepted", "rejected", "unreached"), chain("accepted", "rejected", "unreached", "unreached"), chain()];

test("a share stands after each level that was examined, and unreached ones do not count", () => {
  const { rates, accepted, examined, drafted } = runningRates(ROUNDS);
  assert.deepEqual(rates, [1, 1, 2 / 3, 3 / 4, 3 / 5]);
  assert.deepEqual([accepted, examined, drafted], [3, 5, 8]);
});

test("acceptance, rejection and what was used of all are told apart", () => {
  assert.equal(ratesWords(runningRates(ROUNDS), false), "3 of 5 examined were accepted: acceptance rate 60 %, rejection rate 40 %. 3 more were never examined; of all 8 drafted 38 % were used.");
  assert.equal(ratesWords(runningRates([]), false), "Nothing is judged yet.");
});

test("of a tree the levels make the acceptance rate, and all its tokens what was used", () => {
  const outcomes = ["rejected", "accepted", "rejected", "rejected", "unreached", "unreached"];
  const found = runningRates([{ levels: ["accepted", "rejected", "unreached"], outcomes }]);
  assert.equal(ratesWords(found, true), "1 of 2 examined levels were accepted: acceptance rate 50 %, rejection rate 50 %. Of all 6 drafted tokens 17 % were used; of each level at most one can be.");
});

test("acceptance and rejection make 100 % together, and all is said of all alone", () => {
  const of = (/** @type {number} */ accepted, /** @type {number} */ examined) => ratesWords({ rates: [], accepted, examined, drafted: examined }, false);
  assert.match(of(1, 8), /acceptance rate 13 %, rejection rate 87 %/);
  assert.match(of(299, 300), /acceptance rate over 99 %, rejection rate under 1 %/);
  assert.match(of(4, 4), /acceptance rate 100 %, rejection rate 0 %/);
});
