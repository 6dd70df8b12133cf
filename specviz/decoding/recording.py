"""From a verified tree to the frozen record of its round.

Pure host work on numbers that the round's one copy brought; decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from specviz.decoding.clock import Stopwatch
from specviz.decoding.drafters.base import Beside, Proposal
from specviz.decoding.judgement import Judgement
from specviz.decoding.walk import Walk
from specviz.records import (
    CacheLengths,
    DraftNode,
    DraftTree,
    ExtraToken,
    Outcome,
    Position,
    Round,
    Span,
    Verdict,
)


@dataclass(frozen=True, slots=True, eq=False)
class Verified:
    """A proposal with all that was decided of it; `context_length` counts the tokens before."""

    proposal: Proposal
    judgement: Judgement
    uniforms: tuple[float, ...]
    walk: Walk
    extra: ExtraToken | None
    context_length: int

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        accepted = tuple(self.judgement.nodes[node].token_id for node in self.walk.path)
        return accepted if self.extra is None else (*accepted, self.extra.token_id)


@dataclass(frozen=True, slots=True)
class Shown:
    """The part of a record that is told from the verified tree alone."""

    tree: DraftTree
    verdicts: tuple[Verdict, ...]
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class Timing:
    """A round in seconds of the lane's own clock, which stood still between rounds."""

    started: float
    draft: float
    verify: float
    host: float
    shift: float  # from `time.perf_counter` to the lane's own clock

    @classmethod
    def of(cls, stopwatch: Stopwatch, started: float) -> Timing:
        """Up to now; `started` is when the round began on the lane's clock."""
        return cls(started, *stopwatch.split(), started - stopwatch.began)


def show(verified: Verified) -> Shown:
    """What is to be seen of a verified tree; making it is part of the round."""
    return Shown(_tree(verified), _verdicts(verified), _positions(verified))


def record_round(
    index: int, verified: Verified, shown: Shown, timing: Timing, beside: Beside
) -> Round:
    """The round's record."""
    added = 1 + verified.proposal.topology.size + verified.proposal.query_count
    waited = min(timing.host, beside.waited_seconds)
    drafted = timing.started + timing.draft
    judged = drafted + timing.verify
    return Round(
        index=index,
        context_length=verified.context_length,
        tree=shown.tree,
        verdicts=shown.verdicts,
        positions=shown.positions,
        extra=verified.extra,
        extra_ids=verified.judgement.extra_ids,
        draft_seconds=timing.draft + waited,
        verify_seconds=timing.verify,
        host_seconds=timing.host - waited,
        spans=(
            Span("draft", timing.started, drafted),
            Span("verify", drafted, judged),
            *([Span("draft", judged, judged + waited)] if waited else []),
            Span("host", judged + waited, judged + timing.host),
            *(_shifted(span, timing.shift) for span in beside.spans),
        ),
        notes=verified.proposal.notes + beside.notes,
        cache=CacheLengths(verified.context_length - 1, added, added - 1 - len(verified.walk.path)),
    )


def _shifted(span: Span, seconds: float) -> Span:
    return Span(span.who, max(0.0, span.start + seconds), max(0.0, span.end + seconds))


def _tree(verified: Verified) -> DraftTree:
    shape = verified.judgement.shape
    nodes = zip(verified.judgement.nodes, shape.parents, shape.depths, strict=True)
    return DraftTree(
        verified.proposal.kind,
        tuple(
            DraftNode(node.token_id, parent, depth, node.draft_prob, node.raw_draft_prob)
            for node, parent, depth in nodes
        ),
    )


def _verdicts(verified: Verified) -> tuple[Verdict, ...]:
    outcomes = dict.fromkeys(verified.walk.rejected, Outcome.REJECTED)
    outcomes.update(dict.fromkeys(verified.walk.path, Outcome.ACCEPTED))
    return tuple(
        Verdict(
            target_prob=node.target_prob,
            residual_prob=node.residual_prob,
            draft_prob=node.draft_prob,
            acceptance_prob=node.acceptance_prob,
            uniform_draw=uniform,
            outcome=outcomes.get(index, Outcome.UNREACHED),
            raw_target_prob=node.raw_target_prob,
            raw_draft_prob=node.raw_draft_prob,
        )
        for index, (node, uniform) in enumerate(
            zip(verified.judgement.nodes, verified.uniforms, strict=True)
        )
    )


def _positions(verified: Verified) -> tuple[Position, ...]:
    """The examined rows: the root and every accepted node that was looked behind."""
    path = verified.walk.path
    examined = (-1, *path) if verified.extra is not None else (-1, *path[:-1])
    return tuple(verified.judgement.row(node).position for node in examined)
