"""The text that appears when the pointer is on a node: the numbers of its verdict, line by line.

The lines hold numbers and fixed words only, and no text that a model wrote.
"""

from __future__ import annotations

from specviz.figures.labels import percent
from specviz.figures.rule_words import rule_words
from specviz.records import DraftNode, ExtraKind, ExtraToken, Verdict

_DISTRIBUTIONS = {
    ExtraKind.FIRST: "the target after the prompt",
    ExtraKind.RECOVERED: "the residual after a rejection",
    ExtraKind.BONUS: "the target after full acceptance",
    ExtraKind.PLAIN: "the target, for nothing was drafted",
}


def shown_draft_prob(node: DraftNode) -> float:
    """Return the q that the page shows for a node.

    It is the q that the acceptance rule uses, or the raw q if the rule's q is 0 or 1.
    """
    return node.draft_prob if 0 < node.draft_prob < 1 else node.draft_score


def verdict_lines(verdict: Verdict, is_drawn: bool, rule: str) -> tuple[str, ...]:
    r"""Return p, q, acceptance and u of a drafted node as lines of text.

    `is_drawn` says whether the token was drawn at random. If p or q is 0 or 1, its line also has
    the raw value.

    >>> from specviz.records import Outcome, Verdict
    >>> greedy = Verdict(1.0, 1.0, 1.0, 1.0, 0.25, Outcome.ACCEPTED, 0.62, 0.55)
    >>> lines = verdict_lines(greedy, is_drawn=True, rule="token")
    >>> [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]
    ['p 100 % (raw 62.0 %)', 'q 100 % (raw 55.0 %)', 'acceptance 1', 'u 0.250: accepted']
    """
    p = _with_raw(verdict.target_prob, verdict.raw_target_prob)
    if abs(verdict.compared_prob - verdict.target_prob) > 1e-9:
        p += f" → {percent(verdict.compared_prob)} (residual)"
    q = _with_raw(verdict.draft_prob, verdict.raw_draft_prob)
    words = rule_words(rule)
    if words.compares and not is_drawn:
        q += ", a point mass"
    return f"p {p}", f"q {q}", *words.lines(verdict)


def _with_raw(processed: float, raw: float) -> str:
    says_more = processed in (0, 1) and raw != processed
    return percent(processed) + (f" (raw {percent(raw)})" if says_more else "")


def extra_lines(extra: ExtraToken, rule: str) -> tuple[str, str]:
    """Return two lines: how the target drew the round's extra token, and with what probability.

    A lossy rule has no residual, so the target draws every extra token from its own distribution.
    """
    distribution = _DISTRIBUTIONS[extra.kind] if rule_words(rule).has_residual else "the target"
    source = f"{extra.kind.value}: drawn from {distribution}"
    return source, f"probability {percent(extra.prob)}"
