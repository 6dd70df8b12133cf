"""What a pointer on a node reads: the numbers of its verdict in words.

Knows no chart; lines are joined by Plotly's `<br>` and hold no model text.
"""

from __future__ import annotations

from specviz.figures.labels import probability
from specviz.records import ExtraKind, ExtraToken, Outcome, ProposalKind, Verdict

_LAWS = {
    ExtraKind.FIRST: "the target after the prompt",
    ExtraKind.RECOVERED: "the residual after a rejection",
    ExtraKind.BONUS: "the target after full acceptance",
}


def verdict_lines(verdict: Verdict, shown_q: float, kind: ProposalKind) -> str:
    """p, q, acceptance and u of a drafted node; `shown_q` is the drafter's own confidence."""
    p = probability(verdict.target_prob)
    if abs(verdict.residual_prob - verdict.target_prob) > 1e-9:
        p += f" → {probability(verdict.residual_prob)} (residual)"
    q = probability(shown_q)
    if kind is ProposalKind.DETERMINISTIC:
        q += " (the rule: 1, a point mass)"
    judged = "never examined"
    if verdict.outcome is not Outcome.UNREACHED:
        judged = f"u {verdict.uniform_draw:.3f}: {verdict.outcome.value}"
    acceptance = f"acceptance {probability(verdict.acceptance_prob)}"
    return "<br>".join((f"p {p}", f"q {q}", acceptance, judged))


def extra_lines(extra: ExtraToken) -> str:
    """Where the token came from, and its probability there."""
    source = f"{extra.kind.value}: drawn from {_LAWS[extra.kind]}"
    return f"{source}<br>probability {probability(extra.prob)}"
