// The table of settings in the browser: which texts are valid, and the sentences about a setting.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  breachOf,
  cutWords,
  defaults,
  labelled,
  nodeCount,
  numberBreach,
  numberProblem,
  problemFor,
  settingNamed,
} from "../../assets/player/shared/settings.js";
import { lackProblem, valuesProblem } from "../../assets/player/lab/axis_field.js";
import { takeExampleSettings } from "./example_settings.js";

takeExampleSettings();

test("a number above a bound gets a message with the bound and the number", () => {
  const seed = { low: 0, high: 2 ** 53 - 1, is_whole: true };
  assert.equal(numberProblem(seed, "-1"), "must be a whole number of at least 0, got “-1”");
  assert.equal(
    numberProblem(seed, "9007199254740993"),
    "must be a whole number from 0 to 9,007,199,254,740,991, got “9007199254740993”",
  );
});

test("each value of an axis must be within its bounds or be one of its names", () => {
  const length = { bounds: { low: 1, high: 32, is_whole: true } };
  for (const text of ["1-8", " 1, 4 ,8", "32"])
    assert.equal(valuesProblem(length, undefined, text), "", text);
  assert.equal(
    valuesProblem(length, undefined, "1-99"),
    "must be a whole number from 1 to 32, got “99”",
  );
  assert.equal(
    valuesProblem(length, undefined, "1,x"),
    "must be a whole number from 1 to 32, got “x”",
  );
  assert.equal(valuesProblem(length, undefined, " "), "must have at least one value, got “ ”");
  const names = [{ name: "code" }, { name: "story" }];
  assert.equal(valuesProblem({ bounds: null }, names, "code,story"), "");
  assert.equal(
    valuesProblem({ bounds: null }, names, "code,poem"),
    "must be names of code, story, got “poem”",
  );
});

test("an axis that a chosen method lacks says which methods have it", () => {
  const methods = [
    { name: "draft-model", title: "Draft model" },
    { name: "prompt-lookup", title: "Prompt lookup" },
  ];
  const [model, lookup] = methods;
  const axis = { methods: ["prompt-lookup"] };
  assert.equal(lackProblem(axis, methods, [lookup]), "");
  assert.equal(
    lackProblem(axis, methods, [lookup, model]),
    "is varied with Prompt lookup alone, not with Draft model",
  );
  assert.equal(lackProblem({ methods: methods.map(({ name }) => name) }, methods, methods), "");
});

const TEMPERATURE = { low: 0, high: 2, is_whole: false, least: 0.001 };

test("a number between 0 and the smallest positive value is refused in the server's words", () => {
  for (const text of ["0", "0.0", "0.001", "1e-3", "2"])
    assert.equal(numberBreach(TEMPERATURE, text), "", text);
  for (const text of ["0.0001", "1e-9", "0.0009"])
    assert.equal(numberBreach(TEMPERATURE, text), "must be 0 or from 0.001 to 2", text);
  for (const text of ["-0.1", "2.1", "x"])
    assert.equal(numberBreach(TEMPERATURE, text), "must be a number from 0 to 2", text);
});

test("the message for a number out of bounds names both bounds", () => {
  const [whole, number] = [true, false].map((is_whole) => ({ low: 1, high: 32, is_whole }));
  assert.equal(numberBreach(whole, "32"), "");
  for (const text of ["33", "0", "1.5", "many", "", "1000000"])
    assert.equal(numberBreach(whole, text), "must be a whole number from 1 to 32", text);
  assert.equal(numberBreach(number, "1.5"), "");
  assert.equal(
    numberBreach({ low: 0, high: 1, is_whole: false, excludes_low: true }, "0"),
    "must be a number above 0 and at most 1",
  );
  assert.equal(
    numberBreach({ low: 0, high: 1, is_whole: false, excludes_high: true }, "1"),
    "must be a number of at least 0 and below 1",
  );
  assert.equal(
    numberBreach({ low: 0, high: null, is_whole: true }, "-1"),
    "must be a whole number of at least 0",
  );
  for (const text of ["", " ", "x", "1e400", "NaN"])
    assert.notEqual(numberBreach({ low: 0, high: 2, is_whole: false }, text), "", text);
});

test("branching is whole numbers separated by commas, or nothing", () => {
  for (const text of ["", "3,2", " 3 , 2 ", "01"])
    assert.equal(breachOf({ name: "branching" }, text), "", text);
  for (const text of ["0", "3,", "a", "3;2", "-1"])
    assert.notEqual(breachOf({ name: "branching" }, text), "", text);
});

test("new tokens must fit into the context of the pair, if it is known", () => {
  const setting = { name: "max_new_tokens", bounds: { low: 1, high: 4096, is_whole: true } };
  assert.equal(problemFor(setting, { context: 1024 }, "1023"), "");
  assert.equal(
    problemFor(setting, { context: 1024 }, "4096"),
    "must be below 1,024, the context of these models in tokens, got “4096”",
  );
  assert.equal(
    problemFor(setting, { context: 1024 }, "5000"),
    "must be a whole number from 1 to 4,096, got “5000”",
  );
  assert.equal(problemFor(setting, { context: null }, "4096"), "");
  assert.equal(problemFor({ ...setting, name: "seed" }, { context: 1024 }, "4096"), "");
});

test("the nodes of a tree are counted from its branching and the draft length", () => {
  assert.equal(nodeCount("3,2", "4"), 21);
  assert.equal(nodeCount("50,50", "2"), 2550);
  assert.equal(nodeCount("2", ""), 0);
});

test("a switch is on or empty", () => {
  for (const text of ["", "yes"])
    assert.equal(breachOf({ name: "raw", type: "switch" }, text), "", text);
  assert.equal(breachOf({ name: "raw", type: "switch" }, "true"), "must be yes or empty");
});

test("a setting without bounds may be any text", () => {
  assert.equal(breachOf({ name: "method", bounds: null }, "anything"), "");
});

test("in a sentence from the server, names become the form's titles, but typed text stays", () => {
  const sentence = "draft_length must be at most top_k, got 'draft_length'";
  assert.equal(settingNamed(sentence), "draft_length");
  assert.equal(labelled(sentence), "Draft length must be at most Top-k, got 'draft_length'");
  assert.equal(
    labelled("temperature must be above the seed"),
    "Temperature must be above the seed",
  );
  assert.equal(
    labelled("ngram must be 1", [{ name: "ngram", title: "Longest n-gram" }]),
    "Longest n-gram must be 1",
  );
  assert.equal(labelled("The server cannot be reached."), "The server cannot be reached.");
});

test("settings that are off are not listed in the words about sampling", () => {
  assert.deepEqual(cutWords({ top_k: 40, top_p: 1 }), ["top-k 40"]);
  assert.deepEqual(cutWords({}), []);
});

test("every setting has its default in the form of a field", () => {
  assert.equal(defaults().temperature, "0.8");
});
