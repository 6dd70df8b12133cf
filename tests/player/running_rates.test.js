// Acceptance and rejection rate, running.

import assert from "node:assert/strict";
import test from "node:test";

import { ratesWords, runningRates } from "../../assets/player/step/running_rates.js";

const ROUNDS = [{ levels: ["accepted", "accepted", "rejected", "unreached"] }, { levels: ["accepted", "rejected", "unreached", "unreached"] }, { levels: [] }];

test("a share stands after each level that was examined, and unreached ones do not count", () => {
  const { rates, accepted, examined, drafted } = runningRates(ROUNDS);
  assert.deepEqual(rates, [1, 1, 2 / 3, 3 / 4, 3 / 5]);
  assert.deepEqual([accepted, examined, drafted], [3, 5, 8]);
});

test("acceptance, rejection and what was used of all are told apart", () => {
  assert.equal(ratesWords(runningRates(ROUNDS)), "3 of 5 examined were accepted: acceptance rate 60 %, rejection rate 40 %. 3 more were never examined; of all 8 drafted 38 % were used.");
  assert.equal(ratesWords(runningRates([])), "Nothing is judged yet.");
});
