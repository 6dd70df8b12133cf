// The engines of the page Serve: their configurations, and running servers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { configurationCard } from "../../assets/player/serve/configuration_card.js";
import * as configuration from "../../assets/player/serve/configuration_state.js";
import { readingWords, serverCard, watchSentence } from "../../assets/player/serve/server_card.js";
import * as server from "../../assets/player/serve/server_state.js";
import { elements, named, text } from "./seen.js";

const NONE = { name: "none", title: "plain decoding" };
const NGRAM = { name: "ngram", title: "n-grams" };
const HEAD = { name: "eagle", title: "an EAGLE head" };
const OFFER = {
  engines: [
    { name: "vllm", title: "vLLM", methods: [NONE, NGRAM, HEAD], lacks: [], weights: [] },
    {
      ...{ name: "llama.cpp", title: "llama.cpp", methods: [NONE, NGRAM], weights: ["Q4"] },
      lacks: ["draft_device"],
    },
  ],
  fields: ["model", "draft", "draft_tokens", "draft_device", "ngram_size"].map((name) => ({
    ...{ name, title: `Title of ${name}`, example: "" },
  })),
  drafts: { eagle: "EAGLE head" },
  of_draft: ["draft", "draft_device"],
  of_method: { ngram_size: "ngram" },
  forms: [
    { name: "shell", title: "Shell" },
    { name: "yaml", title: "YAML" },
  ],
  longest: 10,
};
const usual = configuration.usualConfiguration(OFFER);
const card = (state) => configurationCard(state, OFFER, true, { forms: {}, translationForms: {} });
const WRITTEN = { forms: { shell: "vllm serve", yaml: "model: a" }, remarks: ["a remark"] };

test("the form has the fields that the method and the engine use, and no others", () => {
  for (const [change, labels] of [
    [{}, ["model"]],
    [{ wanted: "ngram" }, ["model", "draft_tokens", "ngram_size"]],
    [{ wanted: "eagle" }, ["model", "draft", "draft_tokens", "draft_device"]],
    [{ wanted: "eagle", engine: "llama.cpp" }, ["model"]], // its method is plain decoding
  ]) {
    const state = configuration.chose(usual, change);
    const shown = elements(card(state))
      .filter(({ props: { id } }) => id?.startsWith("sv-engine-") && id !== "sv-engine-method")
      .filter(named("input"))
      .map(({ props }) => props.id.replace("sv-engine-", ""));
    assert.deepEqual(shown, labels, JSON.stringify(change));
    const { fields } = configuration.configurationQuestion(state, OFFER);
    assert.deepEqual(Object.keys(fields), [...labels, "method"]);
  }
});

test("a method that an engine lacks is plain decoding there, and comes back with another engine", () => {
  const chosen = configuration.chose(usual, { wanted: "eagle" });
  const lacking = configuration.chose(chosen, { engine: "llama.cpp" });
  assert.equal(configuration.methodOf(lacking, OFFER), "none");
  const { written } = configuration.configured(lacking, OFFER, WRITTEN).answer;
  const sentence = "llama.cpp cannot draft with an EAGLE head: this is plain decoding.";
  assert.deepEqual(written.remarks, [sentence, "a remark"]);
  const back = configuration.chose(lacking, { engine: "vllm" });
  assert.equal(configuration.methodOf(back, OFFER), "eagle");
  assert.deepEqual(configuration.configured(back, OFFER, WRITTEN).answer.written.remarks, [
    "a remark",
  ]);
});

test("the card shows a configuration or the reason why there is none, never both", () => {
  const ngram = configuration.chose(usual, { wanted: "ngram" });
  const refused = configuration.configured(ngram, OFFER, { error: "draft-tokens must be 1" });
  const written = configuration.configured(refused, OFFER, WRITTEN);
  const unreached = configuration.configured(written, OFFER, null);
  const wrong = (view) =>
    elements(view).find(named("input", { "aria-invalid": "true" }))?.props.id ?? null;
  for (const [state, error, configured, field] of [
    [ngram, null, null, null],
    [refused, "Title of draft_tokens must be 1", null, "sv-engine-draft_tokens"],
    [written, null, "vllm serve", null],
    [unreached, "The server cannot be reached.", null, null],
  ]) {
    const view = card(state);
    const alert = text(view, named("p", { id: "sv-engine-error" }));
    assert.deepEqual([alert, text(view, named("pre")), wrong(view)], [error, configured, field]);
  }
});

test("another format is shown until the server writes none, and a new text is not yet copied", () => {
  const yaml = configuration.showed(configuration.configured(usual, OFFER, WRITTEN), "shown", {
    chosen: "yaml",
    copying: "copied",
  });
  const copy = (state) => text(card(state), named("button", { class: "chip" }));
  assert.deepEqual([text(card(yaml), named("pre")), copy(yaml)], ["model: a", "Copied"]);
  const only = configuration.configured(yaml, OFFER, { forms: { shell: "sglang" }, remarks: [] });
  assert.deepEqual([text(card(only), named("pre")), copy(only)], ["sglang", "Copy"]);
  const again = configuration.configured(only, OFFER, WRITTEN);
  assert.equal(text(card(again), named("pre")), "model: a");
});

test("a pasted text is translated once at a time, and its result replaces the one before", () => {
  const reply = { ...WRITTEN, changes: [], problems: [], notes: [], remarks: undefined };
  const asking = configuration.isTranslating(usual);
  const isBusy = (state) =>
    elements(card(state)).find(named("button", { type: "submit" })).props.disabled;
  assert.deepEqual([isBusy(usual), isBusy(asking)], [false, true]);
  const refused = configuration.translated(asking, { error: "no flags" });
  assert.equal(text(card(refused), named("p", { id: "sv-pasted-error" })), "no flags");
  const done = configuration.translated(refused, reply);
  assert.equal(text(card(done), named("p", { id: "sv-pasted-error" })), null);
  assert.equal(text(card(done), named("pre")), "vllm serve");
  const long = configuration.chose(usual, { pasted: "x".repeat(11) });
  assert.match(configuration.pastedProblem(long, OFFER), /at most 10 characters, got 11$/);
});

const WATCHING = { allowed: null, every_seconds: 2, heads: ["requests"], tokens: 64, longest: 99 };
const READING = { kept: {}, restarts: 0, facts: [], rows: [], figures: {}, absent: [] };
const ATTACHED = { sentences: ["It is fast"], ...READING };
const GONE = { error: "nothing listens there" };
const WRITTEN_TEXT = {
  text: "a",
  tokens: 2,
  seconds: 1,
  first_token: 0.1,
  drafted: 0,
  accepted: 0,
};

// The events that change the card, by their names in the tables of this file.
const EVENTS = {
  attach: server.attaching,
  attached: (state) => server.attached(state, ATTACHED),
  refused: (state) => server.attached(state, { error: "url must be an address" }),
  read: (state) => server.counted(state, { ...READING, restarts: 1 }),
  gone: (state) => server.counted(state, GONE),
  stop: server.stopped,
  write: server.writing,
  wrote: (state) => server.wrote(state, WRITTEN_TEXT),
  "no text": (state) => server.wrote(state, { error: "url is not answered" }),
};

function after(...events) {
  const start = server.edited(server.SERVER, { url: "http://b", plain: "http://a" });
  return events.reduce((state, event) => EVENTS[event](state), start);
}

test("every state of watching says what is watched, what was read, and which button works", () => {
  const counters =
    "The counters are read every 2 seconds. They include the requests of other users.";
  const again = `${counters} The engine was started again once meanwhile.`;
  const failing = "No reading: nothing listens there. It is tried again.";
  const stopped = "Stopped: the charts show what was read.";
  const gone = Array(5).fill("gone");
  for (const [events, sentence, reading, error, works] of [
    [[], "", "", null, "Attach"],
    [["attach"], "Asking it for a short text …", "", null, "Stop"],
    [["attach", "stop"], "", "", null, "Attach"],
    [["attach", "stop", "attached"], "", "", null, "Attach"], // the answer comes too late
    [["attach", "refused"], "", "", "Address must be an address", "Attach"],
    [["attach", "refused", "attach"], "Asking it for a short text …", "", null, "Stop"],
    [["attach", "attached"], "It is fast.", counters, null, "Attach Stop"],
    [["attach", "attached", "read"], "It is fast.", again, null, "Attach Stop"],
    [["attach", "attached", "gone"], "It is fast.", failing, null, "Attach Stop"],
    [["attach", "attached", "gone", "read"], "It is fast.", again, null, "Attach Stop"],
    [["attach", "attached", ...gone], "It is fast.", stopped, "nothing listens there", "Attach"],
    [["attach", "attached", "stop"], "It is fast.", stopped, null, "Attach"],
    [["attach", "attached", "stop", "read"], "It is fast.", stopped, null, "Attach"],
    [["attach", "attached", ...gone, "attach"], "Asking it for a short text …", "", null, "Stop"],
  ]) {
    const state = after(...events);
    const view = serverCard(state, WATCHING, {}, {});
    const buttons = elements(view)
      .filter(
        ({ type, props, text: word }) => type === "button" && word !== "Send" && !props.disabled,
      )
      .filter(({ props }) => props.class === "secondary");
    assert.deepEqual(
      {
        sentence: watchSentence(state),
        reading: readingWords(state, WATCHING),
        error: text(view, named("p", { id: "sv-watch-error" })),
        works: buttons.map((each) => each.text).join(" "),
      },
      { sentence, reading, error, works },
      events.join(", "),
    );
  }
});

test("texts are written one after the other, and belong to the attached servers", () => {
  for (const [events, next, verdict, count, error] of [
    [["write"], "http://a", "Writing …", 0, null],
    [["write", "wrote"], "http://b", "Writing …", 1, null],
    [["write", "wrote", "wrote"], undefined, "the texts are the same", 2, null],
    [["write", "no text"], undefined, "", 0, "http://a: address is not answered"],
    [["write", "wrote", "no text"], undefined, "", 1, "http://b: address is not answered"],
    [["write", "no text", "write"], "http://a", "Writing …", 0, null],
    [["write", "wrote", "wrote", "attach", "attached"], undefined, "", 0, null],
  ]) {
    const state = after("attach", "attached", ...events);
    const view = serverCard(state, WATCHING, {}, {});
    assert.equal(server.writerOf(state), next, events.join(", "));
    assert.ok(text(view).includes(verdict));
    assert.equal(elements(view).filter(named("pre")).length, count);
    assert.equal(text(view, named("p", { id: "sv-text-error" })), error);
  }
});

test("the address stores the servers but neither a key nor an address with a password", () => {
  for (const [url, stored] of [
    ["http://a", "http://a"],
    ["http://user:word@a", null],
    [" ", null],
  ]) {
    const state = server.edited(server.SERVER, {
      url,
      key: "sesame",
      isExpected: url === "http://a",
    });
    const address = new URL("http://page/?serve-server=old&serve-speculates=1");
    server.writeServer(state, address);
    assert.equal(address.searchParams.get("serve-server"), stored);
    assert.ok(!address.href.includes("sesame"));
    const read = server.readServer(server.SERVER, address.searchParams);
    assert.deepEqual([read.url, read.isExpected], [stored ?? "", state.isExpected]);
  }
});

test("a page that may contact no server offers no form", () => {
  const view = serverCard(server.SERVER, { ...WATCHING, allowed: [] }, {}, {});
  assert.equal(text(view, named("form")), null);
  assert.match(text(view), /asks no servers for its visitors/);
});
