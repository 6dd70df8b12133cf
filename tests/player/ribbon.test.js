// A lane's text scrolls to the shown moment.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Ribbon } from "../../assets/player/shared/ribbon.js";
import {
  endsInBytes,
  isOpen,
  joined,
  withCharacters,
} from "../../assets/player/shared/split_characters.js";

// Return tokens on lines of 20 pixels each, in a box of five lines.
function ribbon(count, given) {
  const spans = Array.from({ length: count }, (_, at) => ({
    offsetTop: 20 * at,
    offsetHeight: 20,
  }));
  const box = { scrollTop: 0, clientHeight: 100 };
  const text = Object.assign(Object.create(Ribbon.prototype), {
    box,
    spans,
    selected: null,
    later: count,
    ...given,
  });
  return Object.defineProperty(text, "lineHeight", { value: 20 });
}

test("a text without a selected token scrolls to its end at the shown moment", () => {
  const early = ribbon(50, { later: 1, box: { scrollTop: 900, clientHeight: 100 } });
  early.reveal();
  assert.ok(early.box.scrollTop <= 0);
  const late = ribbon(50, { later: 40 });
  late.reveal();
  assert.ok(late.box.scrollTop < 780 && late.box.scrollTop + 100 >= 800);
  assert.equal(late.box.scrollTop % 20, 0); // no line is cut
});

test("a text with a selected token scrolls to it, and does not move if it is visible", () => {
  const text = ribbon(50, { later: 40 });
  text.selected = text.spans[20];
  text.reveal();
  const { scrollTop } = text.box;
  assert.ok(scrollTop <= 400 && scrollTop + 100 >= 420);
  text.selected = text.spans[21];
  text.reveal();
  assert.equal(text.box.scrollTop, scrollTop);
});

test("a character of several tokens appears in the text with its last token", () => {
  const tokens = ["Hi ", " ⟨F0⟩⟨9F⟩", "⟨98⟩", "⟨80⟩! "];
  assert.equal(joined(tokens.slice(1, 3)), null);
  assert.deepEqual(joined(tokens.slice(1)), [" ", "", "😀! "]);
  assert.deepEqual(
    [endsInBytes("⟨F0⟩"), endsInBytes("⟨80⟩!"), endsInBytes("⟨end⟩")],
    [true, false, false],
  );
  assert.deepEqual(
    [isOpen(["a⟨F0⟩⟨9F⟩", "⟨98⟩"]), isOpen(["⟨F0⟩⟨9F⟩⟨98⟩", "x"]), isOpen(["⟨F0⟩⟨9F⟩⟨98⟩⟨FF⟩"])],
    [true, false, false],
  );
  assert.equal(joined(["⟨F0⟩", "no"]), null); // bytes that are no text stay unchanged
  assert.equal(withCharacters("x⟨C3⟩⟨A9⟩ ⟨FF⟩"), "xé ⟨FF⟩");
});
