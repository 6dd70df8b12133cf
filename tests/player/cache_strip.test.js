// The heading above the cells of the KV cache counts the cells of each kind: committed, root, guesses.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { gunzipSync } from "node:zlib";

import { Round } from "../../assets/player/shared/round.js";
import { wordsOf } from "../../assets/player/step/cache_strip.js";

const TRACES = new URL("../../assets/traces/", import.meta.url);

for (const name of readdirSync(TRACES).filter((each) => each.endsWith(".gz"))) {
  test(`the root is counted separately from guesses in ${name}`, () => {
    const { lanes } = JSON.parse(gunzipSync(readFileSync(new URL(name, TRACES))));
    const rounds = lanes.find((/** @type {any} */ { kind }) => kind === "speculative").rounds;
    for (const record of rounds) {
      const round = new Round(record, 0, {}, {});
      const riding = record.notes.reduce(
        (/** @type {number} */ sum, /** @type {any} */ each) =>
          sum + (each.note === "lookahead-state" ? each.token_ids.length : 0),
        0,
      );
      const { committed, rolled_back: dropped } = record.cache;
      const guesses = round.indices.length + riding;
      assert.equal(
        wordsOf(round, { phase: "judge" }),
        `${committed} committed, 1 root, ${guesses} speculative`,
      );
      const kept = round.accepted.length;
      const words = wordsOf(round, { phase: "commit" });
      assert.ok(
        words.startsWith(`${committed} committed, 1 root, ${kept} kept`) &&
          words.endsWith(`, ${dropped} rolled back`),
        words,
      );
      assert.equal(kept + dropped, guesses);
    }
  });
}
