// The addresses of race, debugger and lab: a page reads its own links and names invalid parameters.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { LabAddress } from "../../assets/player/lab/lab_address.js";
import { Address } from "../../assets/player/race/address.js";
import { numberProblem, optionProblem } from "../../assets/player/shared/settings.js";
import { forkedRecipe } from "../../assets/player/step/recipe.js";
import { StepAddress } from "../../assets/player/step/step_address.js";
import { takeExampleSettings } from "./example_settings.js";

takeExampleSettings();

const PAGE = "http://localhost/app";

function visit(address) {
  Object.assign(globalThis, { window: { location: new URL(address, PAGE) } });
}

beforeEach(() => visit(PAGE));

const METHODS = [
  {
    name: "draft-model",
    drawings: ["best"],
    rules: ["token"],
    length_policies: ["fixed", "adaptive"],
    can_stop: true,
    options: [],
  },
  {
    name: "draft-tree",
    drawings: ["best", "drawn"],
    rules: ["token", "lax"],
    length_policies: ["fixed", "adaptive"],
    can_stop: true,
    options: [],
  },
  {
    name: "lookup",
    drawings: ["best"],
    rules: ["token"],
    length_policies: ["fixed"],
    can_stop: false,
    options: [{ name: "ngram", title: "Longest n-gram", low: 1, high: 8, choices: [] }],
  },
];
const SETUP = {
  pairs: [{ name: "bundled" }, { name: "custom" }],
  methods: METHODS,
  drawings: [{ name: "best" }, { name: "drawn" }],
  rules: [{ name: "token" }, { name: "lax" }],
  length_policies: [{ name: "fixed" }, { name: "adaptive" }],
  tasks: [{ name: "code" }, { name: "chat" }],
};
const PROMPTS = { code: ["a", "b", "c"], chat: ["d"] };

// Return what the address fills in: fields, the method's options, and the chosen prompt.
function raceForm() {
  const picker = {
    prompts: PROMPTS,
    task: "code",
    place: 0,
    text: "a",
    isHeldOut: true,
    show: null,
    showText: null,
  };
  picker.show = (task, place) =>
    Object.assign(picker, { task, place, text: PROMPTS[task][place], isHeldOut: true });
  picker.showText = (task, text) => Object.assign(picker, { task, text, isHeldOut: false });
  const form = { fields: {}, methodPart: { options: {} }, picker };
  Object.defineProperty(form, "method", {
    get: () => METHODS.find(({ name }) => name === (form.fields.method ?? "draft-model")),
  });
  Object.defineProperty(form, "order", {
    get: () => ({ ...form.fields, options: form.methodPart.options }),
  });
  return form;
}

function read(search) {
  const form = raceForm();
  const problems = new Address(form, SETUP).read(search);
  return { form, problems };
}

test("a race's link is read as it was written", () => {
  const { form, problems } = read(
    "?method=lookup&k=7&temperature=0.5&top-k=40&task=code&prompt=3&option-ngram=2",
  );
  assert.deepEqual(problems, []);
  assert.deepEqual(form.fields, {
    method: "lookup",
    draft_length: "7",
    temperature: "0.5",
    top_k: "40",
  });
  assert.deepEqual(form.methodPart.options, { ngram: "2" });
  assert.deepEqual([form.picker.task, form.picker.place], ["code", 2]);
  const { link } = new Address(form, SETUP);
  const again = read(new URL(link).search);
  assert.deepEqual(again.problems, []);
  assert.deepEqual(
    [again.form.fields, again.form.methodPart.options],
    [form.fields, form.methodPart.options],
  );
});

test("a race's link keeps parameters of other pages and drops its own old ones", () => {
  visit("?view=race&trace=code&round=3&k=9&option-old=1");
  const form = raceForm();
  form.fields = { draft_length: "5" };
  const given = new URL(new Address(form, SETUP).link).searchParams;
  assert.deepEqual(Object.fromEntries(given), {
    view: "race",
    trace: "code",
    task: "code",
    prompt: "1",
    k: "5",
  });
});

test("the selected moment of a race is written in its link from 1 and read from 0", () => {
  const form = raceForm();
  const { link } = new Address(form, SETUP, () => ({ round: 11, at: 2 }));
  const given = Object.fromEntries(new URL(link).searchParams);
  assert.deepEqual([given.round, given.pos], ["12", "3"]);
  visit(link);
  assert.deepEqual(new Address(form, SETUP).stop, { round: 11, at: 2 });
  visit("?round=4");
  assert.deepEqual(new Address(form, SETUP).stop, { round: 3, at: 0 });
});

test("a moment of the debugger or an invalid one is not a moment of a race", () => {
  for (const search of [
    "",
    "?view=step&round=3&pos=2",
    "?round=0",
    "?round=2&pos=x",
    "?round=1.5",
    "?pos=3",
  ]) {
    visit(search);
    assert.equal(new Address(raceForm(), SETUP).stop, null, search);
  }
});

test("a typed prompt is part of the link unless it is too long", () => {
  const { form } = read("?task=chat&text=h%C3%A9+%26%3D");
  assert.deepEqual([form.picker.task, form.picker.text], ["chat", "hé &="]);
  const address = new Address(form, SETUP);
  assert.equal(new URL(address.link).searchParams.get("text"), "hé &=");
  assert.equal(address.linkLimit, "");
  form.picker.text = "x".repeat(4001);
  assert.equal(new URL(address.link).searchParams.has("text"), false);
  assert.equal(address.linkLimit, "without the long prompt");
});

const WRONG = [
  ["?k=0", "Draft length must be a whole number from 1 to 32, got “0”"],
  ["?temperature=0.0001", "Temperature must be 0 or from 0.001 to 2, got “0.0001”"],
  ["?method=magic", "Method must be one of draft-model, draft-tree, lookup, got “magic”"],
  ["?drawing=drawn", "Drawing of siblings must be best for this method, got “drawn”"],
  ["?rule=lax", "Verification rule must be token for this method, got “lax”"],
  ["?method=lookup&length=adaptive", "Length policy must be fixed for this method, got “adaptive”"],
  ["?option-ngram=2", "“ngram” is no option of this method"],
  ["?method=lookup&option-ngram=9", "Longest n-gram must be a whole number from 1 to 8, got “9”"],
  ["?task=poem", "Task must be one of code, chat, got “poem”"],
  ["?prompt=4", "Prompt must be from 1 to 3, got “4”"],
  [
    "?k=" + "9".repeat(60),
    `Draft length must be a whole number from 1 to 32, got “${"9".repeat(39)}…”`,
  ],
];

for (const [search, sentence] of WRONG) {
  test(`a race's address ${search.slice(0, 40)} gives one sentence and keeps the default`, () => {
    const { form, problems } = read(search);
    assert.deepEqual(problems, [sentence]);
    assert.deepEqual(
      Object.keys(form.fields).filter((name) => name !== "method"),
      [],
    );
  });
}

test("an invalid field is not part of the race's link, so a reload does not blame the link", () => {
  const form = raceForm();
  form.fields = { method: "lookup", temperature: "9", draft_length: "5", top_k: "" };
  form.methodPart.options = { ngram: "99" };
  const given = Object.fromEntries(new URL(new Address(form, SETUP).link).searchParams);
  assert.deepEqual(given, { task: "code", prompt: "1", method: "lookup", k: "5" });
});

test("a drawing and a rule are read if the method has them", () => {
  const { fields } = read("?method=draft-tree&drawing=drawn&rule=lax").form;
  assert.deepEqual([fields.drawing, fields.rule], ["drawn", "lax"]);
});

test("a moment of the debugger is written from 1 and read from 0", () => {
  visit("?k=4&view=race&axis=token");
  const moment = { trace: "code", round: 11, at: 2, axis: "token" };
  const link = new StepAddress().link(moment);
  assert.deepEqual(Object.fromEntries(new URL(link).searchParams), {
    k: "4",
    view: "step",
    trace: "code",
    round: "12",
    pos: "3",
    axis: "token",
  });
  visit(link);
  assert.deepEqual(new StepAddress().read(), moment);
});

test("the default axis is left out of a moment's address", () => {
  visit("?axis=token");
  assert.equal(
    new URL(new StepAddress().link({ round: 0, at: 0, axis: "round" })).searchParams.has("axis"),
    false,
  );
});

test("moments of a report are written after the #, without a page", () => {
  const link = new StepAddress("hash").link({ round: 0, at: 4, axis: "token" });
  assert.equal(new URL(link).hash, "#round=1&pos=5&axis=token");
  visit(link);
  assert.deepEqual(new StepAddress("hash").read(), { trace: null, round: 0, at: 4, axis: "token" });
});

test("a round that is not a whole number from 1 is ignored", () => {
  for (const text of ["0", "-1", "1.5", "x", "", "NaN", "1e99x"]) {
    visit(`?round=${encodeURIComponent(text)}`);
    assert.equal(new StepAddress().read().round, null, text);
  }
});

const RECIPE = {
  of: "race",
  setting: "method=lookup&k=7&task=chat&prompt=1",
  forks: [
    { round: 5, changes: { draft_length: "2", method: "draft-tree" }, forced: { 3: 0.25, 11: 0 } },
    { round: 9, changes: {}, forced: {} },
  ],
};

test("a fork's link contains the race's settings and each fork's round, changes and draws", () => {
  visit("?view=step&k=4&temperature=0&trace=old&fork=1");
  const link = new StepAddress().link({
    trace: "kept-1",
    round: 5,
    at: 0,
    axis: "round",
    recipe: RECIPE,
  });
  const given = new URL(link).searchParams;
  assert.deepEqual(
    [given.get("k"), given.get("method"), given.has("temperature")],
    ["7", "lookup", false],
  );
  assert.deepEqual(given.getAll("fork"), ["6_k-2_method-draft-tree_u3-0.25_u11-0", "10"]);
  visit(link);
  const { recipe, problem } = new StepAddress().readRecipe();
  assert.deepEqual([recipe.of, recipe.forks, problem], ["race", RECIPE.forks, ""]);
  const again = new StepAddress().link({ trace: "kept-1", round: 5, at: 0, axis: "round", recipe });
  assert.equal(again, link);
});

test("a recording's link needs no settings, but a fork of it does and keeps those of the form", () => {
  visit("?k=4");
  const moment = { round: 0, at: 0, axis: "round" };
  const of = (trace) =>
    new URL(
      new StepAddress().link({
        ...moment,
        trace,
        recipe: { of: "eagle.code", setting: "", forks: [] },
      }),
    ).searchParams;
  assert.equal(of("eagle.code").has("of"), false);
  assert.deepEqual([of("kept-1").get("of"), of("kept-1").get("k")], ["eagle.code", "4"]);
  visit("?trace=eagle.code");
  assert.deepEqual(new StepAddress().readRecipe(), { recipe: null, problem: "" });
});

test("a fork in an invalid link gives one sentence", () => {
  for (const text of [
    "",
    "0",
    "x",
    "1.5",
    "6_",
    "6_k",
    "6_k-",
    "6_magic-1",
    "6_u3-1",
    "6_u3-x",
    "6_u-0.5",
    "6_u3--0.1",
    "99999999",
    "6_u3- ",
    "6_u3-0x0",
    "6_u03-0.5",
    "6_k-2_k-3",
    "6_u3-0.1_u3-0.2",
  ]) {
    visit(`?of=race&fork=2&fork=${encodeURIComponent(text)}`);
    const { recipe, problem } = new StepAddress().readRecipe();
    assert.equal(recipe, null, text);
    assert.equal(
      problem,
      `fork must be a round and its changes, such as 6_k-2_u3-0.25, got “${text}”`,
    );
  }
  visit(`?of=race${"&fork=1".repeat(9)}`);
  assert.equal(
    new StepAddress().readRecipe().problem,
    "fork may stand in a link at most 8 times, got 9",
  );
});

test("a link contains at most as many nested forks as it may have", () => {
  const order = { round: 1, changes: {}, forced: {} };
  const full = { of: "race", setting: "", forks: Array(8).fill(order) };
  assert.equal(forkedRecipe(full, order), null);
  assert.equal(forkedRecipe(null, order), null);
  assert.equal(forkedRecipe(RECIPE, order).forks.length, 3);
});

function lab() {
  const fields = {
    task: {
      value: "code",
      options: [{ value: "code" }, { value: "own" }],
      labels: [{ childNodes: [{ textContent: "Task " }] }],
    },
    prompts: { value: "4" },
    k: { value: "4" },
    values: { value: "1-4" },
  };
  const own = { text: "", name: "", take: null };
  own.take = (given) => Object.assign(own, given);
  return {
    fields,
    own,
    address: new LabAddress(
      fields,
      { k: (text) => numberProblem({ low: 1, high: 32, is_whole: true }, text) },
      own,
    ),
  };
}

test("an invalid field is not part of the lab's link", () => {
  const { fields, address } = lab();
  fields.k.value = "99";
  assert.equal(new URL(address.link).searchParams.has("lab-k"), false);
});

test("the lab's link is read as it was written", () => {
  const first = lab();
  Object.assign(first.fields.k, { value: "7" });
  Object.assign(first.fields.values, { value: "1,3" });
  visit(first.address.link);
  const second = lab();
  assert.deepEqual(second.address.read(), []);
  assert.deepEqual(second.fields, first.fields);
});

test("the lab's link contains only parameters of the lab", () => {
  visit("?view=race&k=9&lab-k=3");
  const given = Object.fromEntries(new URL(lab().address.link).searchParams);
  assert.deepEqual(given, {
    view: "lab",
    "lab-task": "code",
    "lab-prompts": "4",
    "lab-k": "4",
    "lab-values": "1-4",
  });
});

test("typed prompts are part of the link with their file's name, unless they are too long", () => {
  const first = lab();
  first.fields.task.value = "own";
  first.fields.prompts.value = "";
  Object.assign(first.own, { text: "one\ntwo", name: "mine.txt" });
  visit(first.address.link);
  const second = lab();
  assert.deepEqual(second.address.read(), []);
  assert.deepEqual(
    [second.own.text, second.own.name, second.fields.prompts.value],
    ["one\ntwo", "mine.txt", ""],
  );
  first.own.text = "x".repeat(4001);
  assert.equal(new URL(first.address.link).searchParams.has("lab-text"), false);
  assert.equal(first.address.linkLimit, "without the long prompts");
});

test("each invalid parameter in the lab's address is named and its field stays unchanged", () => {
  visit(`?lab-task=poem&lab-k=99&lab-values=${"1,".repeat(300)}`);
  const { address, fields } = lab();
  assert.deepEqual(address.read(), [
    "Task must be one of code, own, got “poem”",
    "lab-k must be a whole number from 1 to 32, got “99”",
    `lab-values must have at most 500 characters, got “${"1,".repeat(20).slice(0, 39)}…”`,
  ]);
  assert.deepEqual([fields.task.value, fields.k.value, fields.values.value], ["code", "4", "1-4"]);
});

test("an option with few values accepts no other value", () => {
  const bits = { low: 0, high: 8, choices: [0, 4, 8] };
  assert.equal(optionProblem(bits, "4"), "");
  assert.equal(optionProblem(bits, "5"), "must be one of 0, 4, 8, got “5”");
  assert.equal(
    optionProblem({ low: 1, high: 3, choices: [] }, "4"),
    "must be a whole number from 1 to 3, got “4”",
  );
});

test("an option must not be below the option that bounds it", () => {
  const longest = { low: 1, high: 9, choices: [], at_least: "shortest" };
  assert.equal(optionProblem(longest, "4", "4"), "");
  assert.equal(optionProblem(longest, "3", "4"), "must be at least shortest = 4, got “3”");
  assert.equal(optionProblem(longest, "3", "many"), "");
});
