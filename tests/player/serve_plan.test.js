// The plan of the page Serve: what it shows follows from its state, whatever happened before.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  answerWords,
  loadCard,
  loadWords,
  moneyCard,
  payCard,
} from "../../assets/player/serve/plan_answers.js";
import { planForm } from "../../assets/player/serve/plan_form.js";
import * as plan from "../../assets/player/serve/plan_state.js";
import { elements, named, text } from "./seen.js";

const models = [
  { name: "llama", title: "Llama" },
  { name: plan.OWN, title: "your own" },
];
const ROWS = [
  { name: "target", title: "Target model", choices: models, default: "llama" },
  { name: "batch", title: "Requests at once", choices: [], default: "8", is_whole: true },
  { name: "price", title: "Price", choices: [], default: "", unit: "per hour" },
].map((row) => ({ unit: "", meaning: "It is a field.", is_whole: false, ...row }));
const WAY = {
  ...{ request: 1, tokens_per_second: 30, loaded_token: 0.02, first_token: 0.1 },
  ...{ carried_requests: 9, card_hours_per_million: 2, money_per_million: null, cards: 1 },
  ...{ cards_for_load: 1, money_a_day_for_load: null, job_seconds: null, job_money: null },
  ...{ batch_within_limits: 8, seats: 8, largest_batch: 8 },
};
const SIZE = {
  ...{ fits: true, answer: "Yes.", reasons: ["It is fast."], warnings: [], unit: "card" },
  ...{ plain: WAY, speculative: { ...WAY, request: 0.5 }, request_speedup: 2, speedup: 2.1 },
  ...{ draft_length: 4, best_length: 4, acceptance: 0.7, draft_utilization: 0.6 },
  ...{ tokens_per_round: 3, cost_ratio: 0.1, verification_overhead: 1, assumed: [] },
  ...{ break_even_acceptance: 0.2, currency: "$" },
};
const SIZED = { size: SIZE, figures: {}, configuration: { method: "eagle" } };
const UNFIT = { ...SIZED, size: { ...SIZE, fits: false, answer: "Does not fit." } };
const WRONG = { error: "batch must be a whole number, got 'nine'" };
const served = (policy) => ({ policy, load: 2, keeps_up: true, within_limits: 1 });
const LOAD = {
  ...{ results: ["plain", "speculative", "switched"].map(served), load: 2, figures: {} },
  measured: ["measured with llama.cpp"],
};
const FILE = { name: "load.json", text: "[1, 2]" };
const REFUSED_FILE = { error: "measured must be the JSON of load" };

// The events that change a plan, by their names in the tables of this file.
const EVENTS = {
  late: plan.isComputing,
  sized: (state) => plan.answered(state, ROWS, SIZED),
  unfit: (state) => plan.answered(state, ROWS, UNFIT),
  wrong: (state) => plan.answered(state, ROWS, WRONG),
  unreached: (state) => plan.answered(state, ROWS, null),
  load: (state) => plan.simulated(state, LOAD),
  "no load": (state) => plan.simulated(state, { error: "others are simulated" }),
  file: (state) => plan.measuredBy(state, FILE),
  "wrong file": (state) => plan.answered(state, ROWS, REFUSED_FILE),
  compute: (state) => plan.measuredBy(state, null),
};

function after(...events) {
  return events.reduce((state, event) => EVENTS[event](state), plan.usualPlan(ROWS));
}

const shows = (view) => elements(view).length > 0;
const isPale = (view) => elements(view).some(({ props }) => props.class?.includes("is-stale"));
const SERVED =
  "At 2 requests per second, the following shares of the requests stay within both limits. plain decoding: 100 %; speculation: 100 %; speculation while it pays: 100 %.";

test("every state says one thing about the plan and one about its load", () => {
  const unreached = "No answer yet. The server cannot be reached.";
  const wrong = "No answer yet. Requests at once must be a whole number, got 'nine'";
  for (const [events, answer, load, hasLoad, hasTimes, hasPlan] of [
    [[], "", "", false, false, false],
    [["late"], "Computing…", "", false, false, false],
    [["wrong"], wrong, "", false, false, false],
    [["sized"], "Yes.", "Simulating…", true, true, true],
    [["sized", "load"], "Yes.", SERVED, true, true, true],
    [["sized", "no load"], "Yes.", "Not simulated: others are simulated", true, true, true],
    [["sized", "wrong"], wrong, "", true, true, false], // nothing is simulated any more
    [["sized", "load", "late"], "Computing…", SERVED, true, true, true],
    [["sized", "load", "unreached"], unreached, SERVED, true, true, false],
    [["sized", "load", "unfit"], "Does not fit.", "", false, false, true],
    [["sized", "load", "unfit", "sized"], "Yes.", "Simulating…", true, true, true],
    [["file", "unfit"], "Does not fit.", "Simulating…", true, false, true],
    [["unfit", "file"], "Does not fit.", "", false, false, true],
    [["sized", "load", "file", "wrong file"], "Yes.", SERVED, true, true, true],
  ]) {
    const state = after(...events);
    const card = loadCard(state, {}, {});
    assert.deepEqual(
      {
        answer: answerWords(state, ROWS),
        load: loadWords(state),
        hasLoad: shows(card),
        hasTimes: shows(moneyCard(state)),
        hasPlan: plan.plannedConfiguration(state) !== null,
      },
      { answer, load, hasLoad, hasTimes, hasPlan },
      events.join(", "),
    );
  }
});

test("results of an older plan are pale, and the load is pale until its own plan is simulated", () => {
  for (const [events, isPlanPale, isLoadPale] of [
    [["sized"], false, true],
    [["sized", "load"], false, false],
    [["sized", "load", "late"], true, true],
    [["sized", "load", "late", "sized"], false, true],
    [["sized", "load", "wrong"], true, true],
    [["sized", "load", "wrong", "sized", "load"], false, false],
  ]) {
    const state = after(...events);
    const pale = [isPale(payCard(state, ROWS)), isPale(loadCard(state, {}, {}))];
    assert.deepEqual(pale, [isPlanPale, isLoadPale], events.join(", "));
  }
});

test("an error is below its field, opens the rare fields, and is gone with the next answer", () => {
  const errors = (state) =>
    elements(planForm(state, ROWS, {}))
      .filter(named("p", { class: "error" }))
      .map((each) => [each.props.id, each.text]);
  const price = { error: "price must be a number, got 'x'" };
  const wrong = plan.answered(after("sized"), ROWS, price);
  assert.deepEqual(errors(wrong), [["sv-serve-price-error", "Price must be a number, got 'x'"]]);
  assert.equal(wrong.isMoreOpen, true);
  assert.deepEqual(errors(EVENTS.sized(wrong)), []);
  assert.equal(after("wrong").isMoreOpen, false);
  assert.deepEqual(errors(after("unreached")), []);
});

test("a file of measured times is used until it is removed or refused, and its error is shown once", () => {
  const file = (...events) => {
    const state = after(...events);
    const card = loadCard(state, {}, {});
    return [
      "measured" in plan.planQuestion(state),
      text(card, named("p", { role: "alert" })) ?? "",
      elements(card).some(({ text: words }) => words === "Back to computed times"),
    ];
  };
  assert.deepEqual(file("sized", "file"), [true, "", true]);
  const error = "The file must be the JSON of load";
  assert.deepEqual(file("sized", "file", "wrong file"), [false, error, false]);
  assert.deepEqual(file("sized", "file", "wrong file", "file"), [true, "", true]);
  assert.deepEqual(file("sized", "file", "wrong file", "compute"), [false, "", false]);
});

test("an address fills the form, and names what it could not read", () => {
  for (const [query, values, problems, isMoreOpen] of [
    ["", { target: "llama", batch: "8", price: "" }, [], false],
    ["serve-batch=2&serve-price=3", { target: "llama", batch: "2", price: "3" }, [], true],
    ["serve-target=owner/m", { target: plan.OWN, batch: "8", price: "" }, [], false],
    [
      "serve-target=gone",
      { target: "llama", batch: "8", price: "" },
      ["Target model cannot be “gone”"],
      false,
    ],
  ]) {
    const state = plan.filledIn(plan.usualPlan(ROWS), ROWS, new URLSearchParams(query));
    assert.deepEqual(
      [state.values, state.linkProblems, state.isMoreOpen],
      [values, problems, isMoreOpen],
    );
    const url = new URL("http://a/?serve-old=1&serve-batch=7");
    plan.writePlan(state, ROWS, url);
    assert.deepEqual(plan.filledIn(state, ROWS, url.searchParams).values, values, query);
  }
});

test("a link contains a model's name on the Hub but no pasted configuration, and says so", () => {
  for (const [config, target, left] of [
    ["owner/model", "owner/model", []],
    ['{"a": "b/c"}', null, ["the pasted configuration"]],
    ["", null, ["the pasted configuration"]],
  ]) {
    const state = plan.named(plan.typed(after(), "target", plan.OWN), "target", config);
    const url = new URL("http://a/");
    plan.writePlan(state, ROWS, url);
    assert.deepEqual([url.searchParams.get("serve-target"), plan.unlinked(state)], [target, left]);
    assert.equal(plan.planQuestion(state).target_config, config);
  }
  assert.deepEqual(plan.unlinked(after("file")), ["the measured times"]);
});
