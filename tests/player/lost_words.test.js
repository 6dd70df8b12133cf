// After a reload, the notice says which race was lost and which one is shown.

import assert from "node:assert/strict";
import { test } from "node:test";

import { lostSentence } from "../../assets/player/race/lost_words.js";

test("an earlier race below the notice about a lost one is called the earlier race", () => {
  assert.match(lostSentence("“Hello”", 0, false), /which ended it: “Hello”\.$/);
  assert.match(
    lostSentence("“Hello”", 0, true),
    /which ended it: “Hello”\. The page shows your race before that\.$/,
  );
  assert.match(
    lostSentence("“Hello”", 2, true),
    /again, first enter them under More settings\. The page shows your race before that\.$/,
  );
});
