// The page says how to get the methods that the chosen models cannot run.

import assert from "node:assert/strict";
import { test } from "node:test";

import { moreWords, needOf, pairFor } from "../../assets/player/race/other_models.js";

const PAIRS = [
  { name: "alone", refusals: { draft: "needs a draft", eagle: "needs a head" }, is_here: true },
  { name: "far", refusals: {}, is_here: false },
  { name: "near", refusals: {}, is_here: true },
  { name: "half", refusals: { eagle: "needs a head" }, is_here: true },
  { name: "custom", refusals: {}, is_here: true },
];

test("the pair with most methods is offered, and of equal pairs one that is downloaded", () => {
  const { pair, count } = pairFor([...PAIRS], ["draft", "eagle"]);
  assert.deepEqual([pair.name, count], ["near", 2]);
  assert.equal(
    pairFor(
      PAIRS.filter(({ name }) => name === "half"),
      ["draft", "eagle"],
    ).count,
    1,
  );
});

test("if no pair can run a method, none is offered", () => {
  assert.equal(pairFor([PAIRS[0]], ["draft", "eagle"]), null);
  assert.equal(pairFor([...PAIRS], []), null);
  assert.equal(pairFor([PAIRS[4]], ["draft"]), null);
});

test("the text counts the methods and names the missing part without the pair", () => {
  assert.equal(moreWords(7), "7 more methods need other models:");
  assert.equal(moreWords(1), "1 more method needs other models:");
  assert.equal(needOf("needs a draft model; the pair A (4-bit) has none"), "needs a draft model");
  const both =
    "needs an EAGLE head; the pair A has none, and needs a target of the Llama family; gpt2 is not";
  assert.equal(
    needOf(both),
    "needs an EAGLE head, and needs a target of the Llama family; gpt2 is not",
  );
});
