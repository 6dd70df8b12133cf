// The glossary: its search finds the right terms, and its page follows from its state.

import assert from "node:assert/strict";
import test from "node:test";

import { foundTerms } from "../../assets/player/glossary/found_terms.js";
import { landed, neighbour, searched, START } from "../../assets/player/glossary/glossary_state.js";
import { glossaryView } from "../../assets/player/glossary/glossary_view.js";
import { elements, named, text } from "./seen.js";

const [LEVEL, BOUND, ROOT] = ["level", "memory_bound", "root"];
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

test("an address chooses its term, and clears a search only if the search hides the term", () => {
  for (const [typed, key, next] of [
    ["", "root", { typed: "", chosen: "root" }],
    ["root", "level", { typed: "root", chosen: "level" }], // the definition of level names the root
    ["memory", "root", { typed: "", chosen: "root" }],
    ["memory", "no-such-term", { typed: "memory", chosen: "" }],
    ["memory", "", { typed: "memory", chosen: "" }],
  ])
    assert.deepEqual(
      landed({ typed, chosen: "memory_bound" }, GLOSSARY, key),
      next,
      `${typed} ${key}`,
    );
});

test("a step leads to the next listed term, and stops at the ends of the list", () => {
  for (const [typed, chosen, by, next] of [
    ["", LEVEL, 1, BOUND],
    ["", ROOT, 1, ROOT],
    ["", LEVEL, -1, LEVEL],
    ["", LEVEL, Infinity, ROOT],
    ["", ROOT, -Infinity, LEVEL],
    ["", "", 1, LEVEL],
    ["memory", ROOT, 1, BOUND], // the search hides the chosen term
    ["abacus", ROOT, 1, undefined],
  ])
    assert.equal(neighbour({ typed, chosen }, GLOSSARY, by), next, `${typed} ${chosen} ${by}`);
});

test("the page lists what the search finds, marks the chosen term, and says if nothing is found", () => {
  const places = Object.fromEntries([LEVEL, BOUND, ROOT].map((key) => [key, []]));
  const show = (state) =>
    glossaryView(state, { glossary: GLOSSARY, places, linkTo: (to) => to }, {});
  const titles = (view) =>
    elements(view)
      .filter(named("h3"))
      .map((each) => each.text);
  const count = (view) => text(view, named("p", { role: "status" }));
  const all = show({ ...START, chosen: ROOT });
  assert.deepEqual([titles(all), count(all)], [["level", "memory-bound", "root"], "3 terms"]);
  assert.match(text(all, named("li", { "aria-current": "true" })), /^root/);
  const none = show(searched(START, " abacus "));
  assert.deepEqual([titles(none), count(none)], [[], "no term has “abacus”"]);
  assert.equal(elements(none).find(named("input")).props.value, " abacus ");
});
