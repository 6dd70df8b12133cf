"""One sequence of a run: its committed tokens, its random draws, its decisions and their records.

A run of one prompt has one row, a batch has many.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from specviz.decoding.clock import Stopwatch
from specviz.decoding.departure import Departure
from specviz.decoding.drafters.base import Observation, OverlappedWork, Proposal
from specviz.decoding.streams import Purpose, RandomStream
from specviz.decoding.verification import TreeJudgement, Walk, walk
from specviz.models.language_model import ForwardOutput
from specviz.records import (
    CacheLengths,
    DecodingConfig,
    DraftNode,
    DraftTree,
    ExtraKind,
    ExtraToken,
    FinishReason,
    Outcome,
    Position,
    Prefill,
    Round,
    Span,
    Verdict,
)


class Row:
    """The committed tokens and why they end.

    Every draw is keyed by the row's own seed, so a row of a batch decides exactly what a run of its
    prompt and seed alone decides.
    """

    def __init__(
        self,
        prompt_ids: Sequence[int],
        config: DecodingConfig,
        end_ids: Collection[int],
        number: int = 0,
        departure: Departure | None = None,
    ) -> None:
        """The tokens that a `departure` brings count as new ones; there must be room for more."""
        self.number = number  # among the rows of a batch
        self.committed = [*prompt_ids, *(departure.written if departure else ())]
        self.finish: FinishReason | None = None
        self._end_ids = frozenset(end_ids)
        self._limit = len(prompt_ids) + config.max_new_tokens
        self._extra_stream = RandomStream(config.seed, Purpose.EXTRA)
        self._verify_stream = RandomStream(config.seed, Purpose.VERIFY)
        self._forced = departure.forced if departure else None  # for the first round only

    @property
    def end(self) -> int:
        """How many tokens are committed: the text position after the root."""
        return len(self.committed)

    @property
    def root(self) -> int:
        """The last committed token; the target has not run it yet."""
        return self.committed[-1]

    @property
    def room(self) -> int:
        """How many tokens may be drafted; one of those left is reserved for the extra token."""
        return self._limit - len(self.committed) - 1

    def extra_draws(self, height: int) -> list[float]:
        """The uniform draw of the extra token after a path of 0, 1, … `height` accepted nodes.

        It depends on the text position at which the token would stand.
        """
        return [self._extra_stream.uniform(self.end + depth) for depth in range(height + 1)]

    def begin(self, judgement: TreeJudgement, seconds: float) -> Prefill:
        """Commit the token after the prompt, which the target drew in `seconds`."""
        judged = judgement.row(-1)
        extra = ExtraToken(judged.extra_id, ExtraKind.FIRST, -1, judged.extra_prob)
        prefill = Prefill(self.end, extra, judged.position, seconds)
        self.append([extra.token_id])
        return prefill

    def decide(self, proposal: Proposal, judgement: TreeJudgement) -> Decision:
        """Walk the tree. The extra token follows, unless the path has an end-of-sequence token."""
        shape = judgement.shape
        uniforms = self._uniforms(judgement)
        acceptance_probs = [node.acceptance_prob for node in judgement.nodes]
        walked = walk(shape.groups, acceptance_probs, uniforms)
        endings = [node for node in walked.path if judgement.nodes[node].token_id in self._end_ids]
        if cut := walked.cut(endings, shape.depths):
            return Decision(proposal, judgement, uniforms, cut, None, self.end)
        judged, kind = judgement.row(walked.end), walked.extra_kind(shape.groups)
        extra = ExtraToken(judged.extra_id, kind, walked.end, judged.extra_prob)
        return Decision(proposal, judgement, uniforms, walked, extra, self.end)

    def _uniforms(self, judgement: TreeJudgement) -> tuple[float, ...]:
        """The uniform draw of every node: its own, or the one forced on it."""
        shape = judgement.shape
        own = tuple(
            self._verify_stream.uniform(self.end + depth - 1, rank)
            for depth, rank in zip(shape.depths, shape.ranks, strict=True)
        )
        forced, self._forced = self._forced, None
        if forced is None:
            return own
        return forced.applied(shape, [node.token_id for node in judgement.nodes], own)

    def append(self, token_ids: Sequence[int]) -> None:
        """Commit new tokens (at least one); they may end the row."""
        self.committed.extend(token_ids)
        if token_ids[-1] in self._end_ids:
            self.finish = FinishReason.END_OF_SEQUENCE
        elif len(self.committed) >= self._limit:
            self.finish = FinishReason.LENGTH


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """A proposal and all that was decided about it.

    `context_length` is the number of tokens committed before.
    """

    proposal: Proposal
    judgement: TreeJudgement
    uniforms: tuple[float, ...]
    walk: Walk
    extra: ExtraToken | None
    context_length: int

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        """The newly committed tokens: the accepted path, then the extra token if there is one."""
        accepted = tuple(self.judgement.nodes[node].token_id for node in self.walk.path)
        return accepted if self.extra is None else (*accepted, self.extra.token_id)

    def observation(self, output: ForwardOutput) -> Observation:
        """What the drafter learns of it; `output` is that of the target's forward."""
        return Observation(
            path=self.walk.path,
            origins=tuple(self.judgement.nodes[node].origin for node in self.walk.path),
            token_ids=self.emitted_ids,
            features=None if output.features is None else output.features[0],
            query_ids=self.judgement.query_ids,
        )


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """A round's seconds on the lane's own clock, which stands still between rounds."""

    started: float
    draft_prefill: float
    draft: float
    verify: float
    host: float
    shift: float  # from `time.perf_counter` to the lane's own clock

    @classmethod
    def of(cls, stopwatch: Stopwatch, started: float) -> RoundTimes:
        """Up to this moment; `started` is when the round began on the lane's clock."""
        return cls(started, *stopwatch.split(), started - stopwatch.began)


@dataclass(frozen=True, slots=True)
class TreeRecord:
    """The part of a round's record that needs no times."""

    tree: DraftTree
    verdicts: tuple[Verdict, ...]
    positions: tuple[Position, ...]


def record_tree(decision: Decision) -> TreeRecord:
    """Build the tree's record; its time counts towards the round."""
    return TreeRecord(_tree(decision), _verdicts(decision), _positions(decision))


def record_round(
    index: int,
    decision: Decision,
    record: TreeRecord,
    times: RoundTimes,
    overlapped: OverlappedWork,
) -> Round:
    """Build the record of a round; waiting for overlapped work counts as drafting."""
    added = 1 + decision.proposal.topology.size + decision.proposal.query_count
    waited = min(times.host, overlapped.waited_seconds)
    read = times.started + times.draft_prefill
    drafted = read + times.draft
    judged = drafted + times.verify
    return Round(
        index=index,
        context_length=decision.context_length,
        tree=record.tree,
        verdicts=record.verdicts,
        positions=record.positions,
        extra=decision.extra,
        extra_ids=decision.judgement.extra_ids,
        draft_seconds=times.draft + waited,
        verify_seconds=times.verify,
        host_seconds=times.host - waited,
        spans=(
            *([Span("draft prefill", times.started, read)] if times.draft_prefill else []),
            Span("draft", read, drafted),
            Span("verify", drafted, judged),
            *([Span("draft", judged, judged + waited)] if waited else []),
            Span("host", judged + waited, judged + times.host),
            *(_shifted(span, times.shift) for span in overlapped.spans),
        ),
        notes=decision.proposal.notes + overlapped.notes,
        cache=CacheLengths(decision.context_length - 1, added, added - 1 - len(decision.walk.path)),
        draft_prefill_seconds=times.draft_prefill,
    )


def _shifted(span: Span, seconds: float) -> Span:
    return Span(span.who, max(0.0, span.start + seconds), max(0.0, span.end + seconds))


def _tree(decision: Decision) -> DraftTree:
    shape = decision.judgement.shape
    nodes = zip(decision.judgement.nodes, shape.parents, shape.depths, strict=True)
    return DraftTree(
        decision.proposal.kind,
        tuple(
            DraftNode(node.token_id, parent, depth, node.draft_prob, node.raw_draft_prob)
            for node, parent, depth in nodes
        ),
    )


def _verdicts(decision: Decision) -> tuple[Verdict, ...]:
    outcomes = dict.fromkeys(decision.walk.rejected, Outcome.REJECTED)
    outcomes.update(dict.fromkeys(decision.walk.path, Outcome.ACCEPTED))
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
            zip(decision.judgement.nodes, decision.uniforms, strict=True)
        )
    )


def _positions(decision: Decision) -> tuple[Position, ...]:
    """The rows that were examined: the root and every accepted node whose children were reached."""
    path = decision.walk.path
    examined = (-1, *path) if decision.extra is not None else (-1, *path[:-1])
    return tuple(decision.judgement.row(node).position for node in examined)
