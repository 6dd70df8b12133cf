// Acceptance and rejection rates up to the current moment.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { gunzipSync } from "node:zlib";

import { Round } from "../../assets/player/shared/round.js";
import { judgedSoFar, judgedWhole, momentsOf } from "../../assets/player/step/moments.js";
import { ratesWords, runningRates } from "../../assets/player/step/running_rates.js";

const chain = (...levels) => ({
  levels,
  drafted: levels.length,
  unreached: levels.filter((each) => each === "unreached").length,
  undecided: 0,
});
const ROUNDS = [
  chain("accepted", "accepted", "rejected", "unreached"),
  chain("accepted", "rejected", "unreached", "unreached"),
  chain(),
];

test("the rate changes after each examined level, and unreached levels do not count", () => {
  const { rates, accepted, examined, drafted } = runningRates(ROUNDS);
  assert.deepEqual(rates, [1, 1, 2 / 3, 3 / 4, 3 / 5]);
  assert.deepEqual([accepted, examined, drafted], [3, 5, 8]);
});

test("acceptance, rejection and the used share of all drafted tokens are distinguished", () => {
  assert.equal(
    ratesWords(runningRates(ROUNDS), false),
    "3 of 5 examined were accepted: acceptance rate 60 %, rejection rate 40 %. 3 more were never examined; of all 8 drafted 38 % were used.",
  );
  assert.equal(ratesWords(runningRates([]), false), "Nothing is judged yet.");
});

test("in a tree the acceptance rate counts levels, and the used share counts all tokens", () => {
  const found = runningRates([
    { levels: ["accepted", "rejected", "unreached"], drafted: 6, unreached: 2, undecided: 0 },
  ]);
  assert.equal(
    ratesWords(found, true),
    "1 of 2 examined levels were accepted: acceptance rate 50 %, rejection rate 50 %. Of all 6 drafted tokens 17 % were used; of each level at most one can be.",
  );
});

test("a rejected guess of an unfinished level counts as verified, and the page says so", () => {
  const open = { levels: [], drafted: 6, unreached: 0, undecided: 1 };
  assert.equal(
    ratesWords(runningRates([open]), true),
    "No level is decided yet: 1 guess was rejected, another one at the same place may still pass.",
  );
  const words = ratesWords(runningRates([chain("accepted"), { ...open, undecided: 2 }]), true);
  assert.match(
    words,
    /^1 of 1 examined levels .* A further level is open: 2 guesses were rejected, another one at the same place may still pass\. Of all 7 /,
  );
});

test("acceptance and rejection add up to 100 %, and the share of all drafted tokens is named separately", () => {
  const of = (/** @type {number} */ accepted, /** @type {number} */ examined) =>
    ratesWords(
      { rates: [], accepted, examined, drafted: examined, unreached: 0, undecided: 0, behind: 0 },
      false,
    );
  assert.match(of(1, 8), /acceptance rate 13 %, rejection rate 87 %/);
  assert.match(of(299, 300), /acceptance rate over 99 %, rejection rate under 1 %/);
  assert.match(of(4, 4), /acceptance rate 100 %, rejection rate 0 %/);
});

test("a block fails once: the guesses after its first rejected one do not count for the rates", () => {
  const tree = {
    drawing: "independent",
    nodes: { id: [1, 2, 3, 4], parent: [-1, 0, 1, 2], depth: [1, 2, 3, 4] },
  };
  const outcome = ["accepted", "rejected", "rejected", "rejected"];
  const round = new Round(
    {
      i: 0,
      context: 3,
      tree,
      rule: "block",
      verdicts: { outcome },
      positions: [],
      extra: { id: 4, kind: "recovered", parent: 0, prob: 0.4 },
    },
    0,
    {},
    {},
  );
  const end =
    "1 of 2 examined were accepted: acceptance rate 50 %, rejection rate 50 %. 2 more came after a rejected guess and do not count; of all 4 drafted 25 % were used.";
  assert.equal(ratesWords(runningRates([judgedWhole(round)]), false), end);
  const moments = momentsOf(round); // four of drafting, one of the forward, four of judging
  assert.equal(ratesWords(runningRates([judgedSoFar(round, moments, 10)]), false), end);
  assert.match(
    ratesWords(runningRates([judgedSoFar(round, moments, 6)]), false),
    /0 of 1 .* 1 more came after a rejected guess and does not count; 2 are not judged yet; /,
  );
});

for (const name of ["draft-model.chat.smollm2", "draft-tree.story"]) {
  test(`at every moment of ${name} the counts include what was drafted, verified or dropped by then`, () => {
    const file = new URL(`../../assets/traces/${name}.json.gz`, import.meta.url);
    const { lanes } = JSON.parse(gunzipSync(readFileSync(file)));
    const rounds = lanes
      .find(({ kind }) => kind === "speculative")
      .rounds.map((record) => new Round(record, 0, {}, {}));
    const isTree = rounds.some((round) => round.isTree);
    let before = 0;
    for (const [index, round] of rounds.entries()) {
      const moments = momentsOf(round);
      const { depth } = round.record.tree.nodes;
      const past = rounds.slice(0, index).map(judgedWhole);
      let last = runningRates(past);
      for (const [at, { phase, level, node }] of moments.entries()) {
        const found = runningRates([...past, judgedSoFar(round, moments, at)]);
        const judged = moments.slice(0, at + 1).filter((each) => each.phase === "judge");
        assert.equal(
          found.drafted,
          before +
            (phase === "draft" ? depth.filter((each) => each <= level).length : depth.length),
        );
        const own = found.unreached - runningRates(past).unreached;
        assert.ok(own <= round.outcomes.filter((each) => each === "unreached").length);
        if (judged.length) assert.doesNotMatch(ratesWords(found, isTree), /Nothing is judged/);
        assert.equal(
          found.undecided > 0,
          judged.length > 0 &&
            phase === "judge" &&
            round.outcomes[node] === "rejected" &&
            moments
              .slice(at + 1)
              .some((each) => each.phase === "judge" && depth[each.node] === depth[node]),
        );
        if (!isTree) assert.equal(found.examined - runningRates(past).examined, judged.length);
        if (!isTree) assert.ok(found.examined + found.unreached <= found.drafted);
        if (!isTree && phase === "judge" && round.outcomes[node] === "rejected")
          assert.equal(found.examined + found.unreached, found.drafted);
        if (!isTree)
          assert.match(
            ratesWords(found, false),
            found.examined === found.drafted || !found.examined
              ? /./
              : new RegExp(`of all ${found.drafted} drafted`),
          );
        if (phase === "commit") assert.equal(own + judged.length, depth.length);
        assert.ok(found.unreached >= last.unreached && own + judged.length <= depth.length);
        last = found;
      }
      before += depth.length;
    }
  });
}
