// A search in the glossary finds the right terms.

import assert from "node:assert/strict";
import test from "node:test";

import { foundTerms } from "../../assets/player/glossary/found_terms.js";

const GLOSSARY = {
  root: { title: "root", definition: "The last token that is certain.", formula: "" },
  memory_bound: {
    title: "memory-bound",
    definition: "Reading takes longest.",
    formula: "max(a, b)",
  },
  level: { title: "level", definition: "The children of one node, such as the root.", formula: "" },
};

test("without a search all terms are listed alphabetically", () => {
  assert.deepEqual(foundTerms(GLOSSARY, " "), ["level", "memory_bound", "root"]);
});

test("a match in a title comes before a match in a definition", () => {
  assert.deepEqual(foundTerms(GLOSSARY, "Root"), ["root", "level"]);
});

test("hyphens and capitals do not matter, and all words must occur", () => {
  assert.deepEqual(foundTerms(GLOSSARY, "Memory bound"), ["memory_bound"]);
  assert.deepEqual(foundTerms(GLOSSARY, "memory root"), []);
  assert.deepEqual(foundTerms(GLOSSARY, "max(a"), ["memory_bound"]);
});
