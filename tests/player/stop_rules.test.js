// What the debugger stops at.

import assert from "node:assert/strict";
import { test } from "node:test";

import { RULES } from "../../assets/player/step/stop_rules.js";

const CASES = [
  ["tie", { isNode: true, u: 0.79, p: 0.4, q: 0.5 }, 0.05, true],
  ["tie", { isNode: true, u: 0.7, p: 0.4, q: 0.5 }, 0.05, false],
  ["tie", { isNode: true, u: 0.99, p: 0.9, q: 0.88 }, 0.05, false], // sure to pass
  ["tie", { isNode: true, u: null, p: 0.4, q: 0.5 }, 0.05, false],
  ["entropy", { isNode: false, entropy: 2.5 }, 2, true],
  ["entropy", { isNode: true, entropy: 2 }, 2, false],
];

for (const [name, at, value, holds] of CASES) {
  test(`the rule ${name} ${holds ? "holds" : "does not hold"} of ${JSON.stringify(at)}`, () => {
    assert.equal(RULES.find((rule) => rule.name === name)?.holds(at, value), holds);
  });
}
