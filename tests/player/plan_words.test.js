// The sentences next to the charts of a serving plan.

import assert from "node:assert/strict";
import { test } from "node:test";

import { apart, lengthWords } from "../../assets/player/serve/size_view.js";

const lengths = [
  { first: 1, last: 18, K: 5 },
  { first: 19, last: 366, K: 1 },
  { first: 367, last: 1024, K: 0 },
];

test("draft lengths are listed for as many requests as the memory holds", () => {
  assert.equal(
    lengthWords({ lengths, largest_batch: 260 }),
    "Best draft length by the number of requests at once: K = 5 with 1 to 18, K = 1 with 19 to 260. More requests do not fit.",
  );
  assert.match(lengthWords({ lengths, largest_batch: 1024 }), /none with 367 to 1024\.$/);
  assert.match(lengthWords({ lengths, largest_batch: 0 }), /none with 367 to 1024\.$/);
});

test("two different numbers get enough digits to show their difference", () => {
  assert.deepEqual(apart(18.74, 17.5, 1), ["18.7", "17.5"]);
  assert.deepEqual(apart(0.31, 0.26, 1), ["0.31", "0.26"]);
  assert.deepEqual(apart(0.0401, 0.0353, 2), ["0.040", "0.035"]);
  assert.deepEqual(apart(2, 2, 1), ["2.0", "2.0"]);
  assert.deepEqual(apart(1500.2, 1500.3, 0), ["1,500", "1,500"]);
  assert.deepEqual(apart(0, 3.4, 1), ["0.0", "3.4"]);
});
