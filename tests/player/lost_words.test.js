// After a reload, the notice says which race was lost and which one is shown.

import assert from "node:assert/strict";
import { test } from "node:test";

import { lostSentence } from "../../assets/player/race/lost_words.js";

test("an earlier race below the notice about a lost one is called the earlier race", () => {
  assert.match(lostSentence("“Hello”", 0, false), /ended with it: “Hello”\.$/);
  assert.match(lostSentence("“Hello”", 0, true), /ended with it: “Hello”\. Shown: your race before that\.$/);
  assert.match(lostSentence("“Hello”", 2, true), /again, too, type them under More settings first\. Shown: your race before that\.$/);
});
