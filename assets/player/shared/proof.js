// The proof that the lossless rules do not change the distribution of the text. It opens below the
// words "same distribution". The text is the same for every run.

import { element } from "./dom.js";

/** @type {["p" | "pre", string][]} */
const PARTS = [
  [
    "p",
    "At each position the target wants a distribution p of the next token, and the draft proposed a token x, drawn from its own distribution q. " +
      "The rule: accept x with probability min(1, p(x)/q(x)). If it is rejected, draw a new token from the residual, " +
      "what p has beyond q, scaled to sum to 1.",
  ],
  [
    "pre",
    "accept x        with probability  min(1, p(x)/q(x))\n" +
      "else draw from  r(y) = max(0, p(y) − q(y)) / R,   R = Σ max(0, p − q)",
  ],
  [
    "p",
    "How often is a token y emitted? Either it was proposed and accepted, which happens with probability " +
      "q(y)·min(1, p(y)/q(y)) = min(p(y), q(y)). Or some proposal was rejected, which happens with probability " +
      "1 − Σ min(p, q) = R, and then y was drawn from the residual.",
  ],
  ["pre", "P(y) = min(p(y), q(y)) + R · max(0, p(y) − q(y)) / R = p(y)"],
  [
    "p",
    "So every position follows p exactly, however bad the draft is. A bad draft costs speed, never quality: the acceptance rate is " +
      "Σ min(p, q), the overlap of the two distributions.",
  ],
  [
    "p",
    "A chain repeats this. The check of position 2 is used only if position 1 was accepted, so it happens under exactly the prefix " +
      "that is in the text. The first rejection drops the rest of the chain. If everything passes, the target’s forward " +
      "has already computed p for one more position: that bonus token is drawn from p itself.",
  ],
  [
    "p",
    "In a tree, several children of one node are tried one after another. After a child fails, the residual replaces p for the next child " +
      "(and if siblings are drawn without replacement, the failed token is removed from q as well). Each step keeps the promise " +
      "“accepted here or drawn later, the outcome follows the p of this step”; unfolding from the last child to the first gives p again. " +
      "Children that are not drawn but chosen, as the top-k ones are, count as point masses: q = 1 at one token, accepted with p(x); " +
      "failing removes that token from p.",
  ],
  [
    "p",
    "Typical acceptance is another rule: it keeps a drafted token whenever p gives it enough, however often the draft proposes it, and draws " +
      "the replacement from p as if nothing had been rejected. Likely tokens are then emitted too often. The rule is lossy, and the app marks it wherever it is used.",
  ],
  [
    "p",
    "At temperature 0, p is 1 for one token and 0 for all others. Then the outcome is not only the same in distribution but the same text, " +
      "as far as rounding allows: the check runs several tokens in one forward, and where two logits nearly tie, the last bit can decide. " +
      "The page then shows the position and the margin.",
  ],
];

// Return the proof as an element that is folded at first.
export function proofFold() {
  const fold = element("details", "proof-words");
  fold.append(
    element("summary", "", "Why the lossless rules keep the target’s distribution: the proof"),
    ...PARTS.map(part),
  );
  return fold;
}

// Make the formula focusable, so that keys can scroll it if it is wider than the page.
/** @param {["p" | "pre", string]} given */
function part([tag, text]) {
  const made = element(tag, tag === "pre" ? "formula" : "", text);
  if (tag === "pre") made.tabIndex = 0;
  return made;
}
