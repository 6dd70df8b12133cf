// The browser stores values that survive a reload.

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { KeptSweep } from "../../assets/player/lab/kept_sweep.js";
import { browser, tab } from "../../assets/player/shared/kept.js";

class Storage {
  held = new Map();
  isFull = false;

  getItem(key) {
    return this.held.get(key) ?? null;
  }

  setItem(key, text) {
    if (this.isFull) throw new DOMException("full", "QuotaExceededError");
    this.held.set(key, text);
  }

  removeItem(key) {
    this.held.delete(key);
  }
}

let session;

beforeEach(() => {
  session = new Storage();
  Object.assign(globalThis, { sessionStorage: session, localStorage: new Storage() });
});

test("a stored value is read unchanged, under a name with the app's prefix", () => {
  const value = { text: "é\n", list: [1, null, false] };
  tab.keep("form", value);
  assert.deepEqual(tab.recall("form"), value);
  assert.deepEqual([...session.held.keys()], ["specviz-form"]);
  tab.forget("form");
  assert.equal(tab.recall("form"), null);
});

test("the values of a tab and of the browser are separate", () => {
  tab.keep("theme", "dark");
  assert.equal(browser.recall("theme"), null);
});

test("a value that does not fit also removes the older one, and nothing breaks", () => {
  tab.keep("sweep", "old");
  session.isFull = true;
  tab.keep("sweep", "new");
  assert.equal(tab.recall("sweep"), null);
});

test("if the browser refuses storage, nothing is stored and nothing breaks", () => {
  Object.defineProperty(globalThis, "sessionStorage", {
    configurable: true,
    get() {
      throw new DOMException("refused", "SecurityError");
    },
  });
  tab.keep("form", 1);
  assert.equal(tab.recall("form"), null);
  Object.defineProperty(globalThis, "sessionStorage", {
    configurable: true,
    writable: true,
    value: session,
  });
});

test("broken content counts as no content", () => {
  for (const text of ["", "{", "dark", "undefined"]) {
    session.setItem("specviz-form", text);
    assert.equal(tab.recall("form"), null, text);
  }
  tab.keep("form", 5);
  assert.equal(
    tab.recall("form", (value) => value.at(0) === "a"),
    null,
  ); // the content is not even a text
});

test("a sweep survives a reload, and a broken sweep is ignored", () => {
  const sweep = new KeptSweep();
  sweep.begin('{"axes": [["draft-length", [1, 2]]]}');
  sweep.add('{"speedup": 2}');
  sweep.setNoise([1.01]);
  const again = new KeptSweep();
  assert.equal(again.recall(), true);
  assert.deepEqual([again.lines, again.noise, again.isComplete], [sweep.lines, [1.01], false]);
  for (const broken of [
    5,
    "text",
    {},
    { lines: "x", noise: [] },
    { lines: ["{"], noise: [] },
    { lines: ["{}"] },
  ]) {
    tab.keep("sweep", broken);
    assert.equal(new KeptSweep().recall(), false, JSON.stringify(broken));
  }
});
