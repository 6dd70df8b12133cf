// The rules that choose the next moment at which the debugger stops.

import assert from "node:assert/strict";
import { test } from "node:test";

import { RULES, best } from "../../assets/player/step/stop_rules.js";

const CASES = [
  ["tie", { isNode: true, u: 0.79, p: 0.4, q: 0.5 }, 0.05, true],
  ["tie", { isNode: true, u: 0.7, p: 0.4, q: 0.5 }, 0.05, false],
  ["tie", { isNode: true, u: 0.99, p: 0.9, q: 0.88 }, 0.05, false], // p >= q, so the token is accepted whatever u is
  ["tie", { isNode: true, u: null, p: 0.4, q: 0.5 }, 0.05, false],
  ["entropy", { isNode: false, entropy: 2.5 }, 2, true],
  ["entropy", { isNode: true, entropy: 2 }, 2, false],
];

for (const [name, at, value, holds] of CASES) {
  test(`the rule ${name} ${holds ? "holds" : "does not hold"} for ${JSON.stringify(at)}`, () => {
    assert.equal(RULES.find((rule) => rule.name === name)?.holds(at, value), holds);
  });
}

test("of two equally probable tokens the best is the one that the decoder takes", () => {
  assert.equal(best([288, 30, 28], [0.341436, 0.341436, 0.207092]), 30);
  assert.equal(best([288, 30, 28], [0.333145, 0.32681, 0.23389]), 288);
  assert.equal(best([288], []), null);
});
