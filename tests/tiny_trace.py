"""A race so small that every number can be worked out by hand."""

from __future__ import annotations

import dataclasses

from specviz.records import (
    BASELINE,
    CacheLengths,
    DraftNode,
    DraftTree,
    Drawing,
    ExtraKind,
    ExtraToken,
    Outcome,
    Round,
    TokenStep,
    Trace,
    Verdict,
)
from tests.random_traces import changed, random_trace


def chain(drafted: int, accepted: int, draft: float, verify: float, host: float) -> Round:
    """Return a chain that accepts the first `accepted` of its tokens; all token ids are 5."""
    full = accepted == drafted
    outcomes = [Outcome.ACCEPTED] * accepted + [Outcome.REJECTED] * (not full)
    outcomes += [Outcome.UNREACHED] * (drafted - len(outcomes))
    kind = ExtraKind.BONUS if full else ExtraKind.RECOVERED
    return Round(
        index=0,
        context_length=1,
        tree=DraftTree(
            Drawing.INDEPENDENT, tuple(DraftNode(5, i - 1, i + 1, 0.5, 0.5) for i in range(drafted))
        ),
        verdicts=tuple(Verdict(0.5, 0.5, 0.5, 1.0, 0.5, each, 0.5, 0.5) for each in outcomes),
        positions=(),
        extra=ExtraToken(5, kind, accepted - 1, 0.5),
        extra_ids=(5,) * (drafted + 1),
        draft_seconds=draft,
        verify_seconds=verify,
        host_seconds=host,
        spans=(),
        notes=(),
        cache=CacheLengths(1, drafted + 1, drafted - accepted),
    )


def tiny_trace() -> Trace:
    """Return a race in which both lanes emit seven tokens of id 5.

    Baseline: 0.1 s of prefill and six steps of 0.1 s: 7 tokens in 0.7 s, 10 per second.
    Speculative: 0.1 s of prefill;
      round 0: 3 drafted, 1 accepted, 1 recovered: 2 tokens in 0.03 + 0.10 + 0.01 = 0.14 s
      round 1: 3 drafted, 3 accepted, 1 bonus:     4 tokens in 0.03 + 0.12 + 0.01 = 0.16 s
    7 tokens in 0.4 s: 17.5 per second.
    """
    base = random_trace(0, rounds=0, temperature=0.0)
    assert base.prefill is not None
    first = dataclasses.replace(base.prefill.extra, token_id=5)
    prefill = dataclasses.replace(base.prefill, extra=first, seconds=0.1)
    rounds = (chain(3, 1, 0.03, 0.10, 0.01), chain(3, 3, 0.03, 0.12, 0.01))
    steps = tuple(TokenStep(i, 5, 0.5, 0.25, 0.1) for i in range(6))
    plain = changed(base, BASELINE, prefill=prefill, steps=steps)
    return changed(plain, prefill=prefill, rounds=rounds)
