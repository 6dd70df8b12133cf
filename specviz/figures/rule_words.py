"""The words about a round that depend on its verification rule, for figures and sentences.

A rule without an entry in `_WORDS` is described as token by token.
"""

from __future__ import annotations

from specviz.figures.labels import decimals, drawn
from specviz.records import Outcome, Round, Verdict


class RuleWords:
    """The words about a verification rule; the values of this class describe token by token.

    - `has_draws`: a draw u decides whether a guess passes.
    - `compares`: the rule compares p with q at each guess, so the overlap of both shows how often
      it passes.
    - `has_residual`: after a rejection, the target draws from a residual, not from p.
    - `is_joint`: the rule judges whole paths, from their ends.
    - `goes_up`: the rule judges the paths of a tree one after another, from the leaves up.
    - `title`: the heading above the bars of p and q; "" if p and q are what the rule compares.
    """

    has_draws = True
    compares = True
    has_residual = True
    is_joint = False
    goes_up = False
    title = ""

    def remark(self, verdict: Verdict) -> str:
        """Return a sentence about what the bars of p and q do not show, or ""."""
        return ""

    def lines(self, verdict: Verdict) -> tuple[str, ...]:
        """Return the acceptance and the draw of a drafted node as lines of text."""
        is_examined = verdict.outcome is not Outcome.UNREACHED
        accept, u = decimals(verdict.acceptance_prob), "unseen"
        if is_examined and verdict.uniform_draw is not None:
            accept, u = drawn(verdict.acceptance_prob, verdict.uniform_draw)
        tossed = f"u {u}: {verdict.outcome.value}"
        return f"acceptance {accept}", tossed if is_examined else "never examined"


class _Typical(RuleWords):
    has_draws = False
    compares = False
    has_residual = False
    title = "A lossy rule: it asks whether p is large enough, not how often the draft proposes"

    def remark(self, verdict: Verdict) -> str:
        return f"p is {self._side(verdict)} the threshold"

    def lines(self, verdict: Verdict) -> tuple[str, ...]:
        is_examined = verdict.outcome is not Outcome.UNREACHED
        passes = f"p is {self._side(verdict)} the rule's threshold"
        return (passes, *([verdict.outcome.value] * is_examined))

    def _side(self, verdict: Verdict) -> str:
        return "above" if verdict.acceptance_prob > 0 else "below"


class _BlockWords(RuleWords):
    compares = False
    is_joint = True
    title = "The rule judges the draft as a whole; this guess adds its p/q to the product"

    def remark(self, verdict: Verdict) -> str:
        if verdict.outcome is Outcome.UNREACHED:
            return "the text ends before it"
        return "the bar ends at h, up to which the draw passes"

    def lines(self, verdict: Verdict) -> tuple[str, ...]:
        if verdict.outcome is Outcome.UNREACHED or verdict.uniform_draw is None:
            return f"h {decimals(verdict.acceptance_prob)}", verdict.outcome.value
        threshold, u = drawn(verdict.acceptance_prob, verdict.uniform_draw)
        return f"h {threshold}", f"u {u}: {verdict.outcome.value}"


class _TraversalWords(_BlockWords):
    goes_up = True
    title = (
        "The rule judges whole paths, from the leaves up; this guess adds its p/q to the product"
    )

    def remark(self, verdict: Verdict) -> str:
        if verdict.outcome is Outcome.UNREACHED:
            return "another path passed before, or the text ends before it"
        return super().remark(verdict)


def carried_ratios(round_: Round) -> tuple[float, ...]:
    """Return the running product of p/q at every node of a chain, for block verification.

    The product includes all nodes from the first one to this one. It is limited to 1 after each
    factor. The paper (arXiv 2403.10444) calls it p_i.
    """
    ratios: list[float] = []
    for verdict in round_.verdicts:
        before, q = (ratios[-1] if ratios else 1.0), verdict.draft_prob
        ratios.append(min(1.0, before * verdict.target_prob / q) if q else 0.0)
    return tuple(ratios)


_WORDS: dict[str, RuleWords] = {
    "typical": _Typical(),
    "block": _BlockWords(),
    "traversal": _TraversalWords(),
}
_TOKEN_BY_TOKEN = RuleWords()


def rule_words(rule: str) -> RuleWords:
    """Return the words for a round that this rule judged."""
    return _WORDS.get(rule, _TOKEN_BY_TOKEN)
