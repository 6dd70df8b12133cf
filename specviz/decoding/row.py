"""One sequence of a run: its committed tokens, its draws, its decisions and their records.

Such a sequence is called a row. A run of one prompt has one row; a batch has several. In shapes, R
is the number of rows of a draft tree's tables (the root, then the nodes) and F W the width of the
features of one token.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from torch import Tensor

from specviz.decoding.clock import Stopwatch
from specviz.decoding.departure import Departure
from specviz.decoding.draft_lengths import draft_length
from specviz.decoding.drafters.base import Observation, OverlappedWork, Proposal
from specviz.decoding.rules.rule import Rule, Walk
from specviz.decoding.rules.rule_table import rule_named
from specviz.decoding.streams import Purpose, RandomStream
from specviz.decoding.verification import TreeJudgement
from specviz.errors import InputError, short
from specviz.models.text.grammar import Grammar
from specviz.records import (
    MAX_DRAFT_LENGTH,
    CacheLengths,
    DecodingConfig,
    DraftNode,
    DraftTree,
    ExtraKind,
    ExtraToken,
    FinishReason,
    ForcedTokens,
    Outcome,
    Position,
    Prefill,
    Round,
    Span,
    Verdict,
)


class Row:
    """The committed tokens of one sequence, and the reason why it ended.

    Every random draw depends on the row's own seed. So a row of a batch makes the same decisions as
    a single run with the row's prompt and seed.
    """

    def __init__(
        self,
        prompt_ids: Sequence[int],
        config: DecodingConfig,
        end_ids: Collection[int],
        number: int = 0,
        departure: Departure | None = None,
        rule: Rule | None = None,
        grammar: Grammar | None = None,
    ) -> None:
        """Create the row. `rule` replaces the rule that the settings name.

        Tokens that a departure has already written count as new tokens. The limit on new tokens
        must be larger than the number of tokens that are already written. `grammar` is the compiled
        grammar of the settings. Raises InputError if the settings have a grammar but the caller
        has not compiled it, or if it forbids the text that is already written.
        """
        if config.grammar and grammar is None:
            raise InputError(
                "grammar must be empty here, because only races, batches and forks can follow one, "
                f"got {short(config.grammar)}"
            )
        self.number = number  # index of this row (sequence) in its batch
        self.committed = [*prompt_ids, *(departure.written if departure else ())]
        self.finish: FinishReason | None = None
        self.rule = rule or rule_named(config.rule)
        self._end_ids = frozenset(end_ids)
        self._limit = len(prompt_ids) + config.max_new_tokens
        self._extra_stream = RandomStream(config.seed, Purpose.EXTRA)
        self._verify_stream = RandomStream(config.seed, Purpose.VERIFY)
        self._length = draft_length(config)
        for drafted, accepted in departure.lengths if departure else ():
            self._length.add(drafted, accepted)
        # the position of the new tokens in the grammar
        self.grammar = grammar.begin() if grammar else None
        self._drafts_forced = config.draft_forced
        if self.grammar and departure:
            self.grammar.append(departure.written)
        # the draws that replace random draws in the first round; later rounds ignore them
        self._forced = departure.forced if departure else None

    @property
    def end(self) -> int:
        """Return the number of committed tokens.

        This is also the text position after the last of them.
        """
        return len(self.committed)

    @property
    def root(self) -> int:
        """Return the last committed token, which the target has not run yet."""
        return self.committed[-1]

    @property
    def room(self) -> int:
        """Return how many tokens the next round may draft.

        The text must not exceed its limit, and one token of the limit is reserved for the target's
        extra token. The length policy can allow fewer tokens.
        """
        return self._length.within(self._limit - len(self.committed) - 1)

    @property
    def forced(self) -> tuple[int, ...]:
        """Return the tokens that the grammar forces next, if the settings want them drafted.

        They must leave space for the target's extra token. They depend only on the committed text
        and not on random draws, so drafting them is exact.
        """
        if self.grammar is None or not self._drafts_forced:
            return ()
        return self.grammar.forced(min(self._limit - len(self.committed) - 1, MAX_DRAFT_LENGTH))

    def extra_draws(self, height: int) -> list[float]:
        """Return the draws of the extra token after 0, 1, … `height` accepted nodes.

        Each draw depends on the text position that the extra token would have.
        """
        return [self._extra_stream.uniform(self.end + depth) for depth in range(height + 1)]

    def begin(self, judgement: TreeJudgement, seconds: float) -> Prefill:
        """Commit the first token after the prompt. The target needed `seconds` for this token."""
        judged = judgement.row(-1)
        extra = ExtraToken(judged.extra_id, ExtraKind.FIRST, -1, judged.extra_prob)
        prefill = Prefill(self.end, extra, judged.position, seconds)
        self.append([extra.token_id])
        return prefill

    def decide(self, proposal: Proposal, judgement: TreeJudgement) -> Decision:
        """Decide which path of the draft tree is accepted, and add the target's extra token.

        There is no extra token if the path contains an end-of-sequence token.
        """
        shape = judgement.shape
        uniforms = self._uniforms(judgement)
        acceptance_probs = [node.acceptance_prob for node in judgement.nodes]
        walked = self.rule.walk(shape.groups, acceptance_probs, uniforms)
        if not any(isinstance(note, ForcedTokens) for note in proposal.notes):
            self._length.add(max(shape.depths, default=0), len(walked.path))
        endings = [node for node in walked.path if judgement.nodes[node].token_id in self._end_ids]
        if cut := walked.cut(endings, shape.depths):
            return Decision(proposal, judgement, uniforms, cut, None, self.end, self.rule.name)
        judged, kind = judgement.row(walked.end), walked.extra_kind(shape.groups)
        extra = ExtraToken(judged.extra_id, kind, walked.end, judged.extra_prob)
        return Decision(proposal, judgement, uniforms, walked, extra, self.end, self.rule.name)

    def _uniforms(self, judgement: TreeJudgement) -> tuple[float, ...]:
        """Return one uniform draw per node.

        A forced draw replaces the draw that the random stream gives for a node. A position that was
        drafted but not reached is drafted again in the next round. That round has the same draw for
        it, unless the rule has already read the draw.
        """
        shape = judgement.shape
        own = tuple(
            self._verify_stream.uniform(*self.rule.draw_key(self.end, node, depth, rank))
            for node, (depth, rank) in enumerate(zip(shape.depths, shape.ranks, strict=True))
        )
        forced, self._forced = self._forced, None
        if forced is None:
            return own
        return forced.applied(shape, [node.token_id for node in judgement.nodes], own)

    def append(self, token_ids: Sequence[int]) -> None:
        """Commit at least one new token.

        The row ends if it reaches the token limit, or if a token is an end-of-sequence token.
        """
        self.committed.extend(token_ids)
        if self.grammar:
            self.grammar.append(token_ids)
        if token_ids[-1] in self._end_ids:
            self.finish = FinishReason.END_OF_SEQUENCE
        elif len(self.committed) >= self._limit:
            self.finish = FinishReason.LENGTH


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """The drafter's proposal in one round, and the target's decision about it.

    `context_length` is the number of tokens that were committed before the round.
    """

    proposal: Proposal
    judgement: TreeJudgement
    uniforms: tuple[float, ...]
    walk: Walk
    extra: ExtraToken | None
    context_length: int
    rule: str

    @property
    def emitted_ids(self) -> tuple[int, ...]:
        """Return the new tokens: the accepted path, then the extra token if there is one."""
        accepted = tuple(self.judgement.nodes[node].token_id for node in self.walk.path)
        return accepted if self.extra is None else (*accepted, self.extra.token_id)

    def observation(self, features: Tensor | None) -> Observation:
        """Return the message that tells the drafter what the target decided.

        `features` [R, F W] are the target's features of the root and of all nodes.
        """
        return Observation(
            path=self.walk.path,
            origins=tuple(self.judgement.nodes[node].origin for node in self.walk.path),
            token_ids=self.emitted_ids,
            features=features,
            query_ids=self.judgement.query_ids,
            best_ids=self.judgement.best_ids,
        )


@dataclass(frozen=True, slots=True)
class RoundTimes:
    """The seconds of the parts of one round.

    The fields `started` and `shift` refer to the lane's clock, which stops between rounds.
    """

    started: float
    draft_prefill: float
    draft: float
    verify: float
    host: float
    # number of seconds to add to `time.perf_counter` to get the time on the lane's clock
    shift: float

    @classmethod
    def of(cls, stopwatch: Stopwatch, started: float) -> RoundTimes:
        """Read the times of the round from the stopwatch, which stops now.

        `started` is the time on the lane's clock when the round began.
        """
        return cls(started, *stopwatch.split(), started - stopwatch.began)


@dataclass(frozen=True, slots=True)
class TreeRecord:
    """The parts of a round's record that have no times: tree, verdicts on its nodes, positions."""

    tree: DraftTree
    verdicts: tuple[Verdict, ...]
    positions: tuple[Position, ...]


def record_tree(decision: Decision) -> TreeRecord:
    """Build the record of the tree. The time of this call counts as part of the round."""
    return TreeRecord(_tree(decision), _verdicts(decision), _positions(decision))


def record_round(
    index: int,
    decision: Decision,
    record: TreeRecord,
    times: RoundTimes,
    overlapped: OverlappedWork,
) -> Round:
    """Build the record of a round.

    If the round waited for drafting that overlapped verification, that time counts as drafting.
    """
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
        rule=decision.rule,
    )


def _shifted(span: Span, seconds: float) -> Span:
    return Span(span.who, max(0.0, span.start + seconds), max(0.0, span.end + seconds))


def _tree(decision: Decision) -> DraftTree:
    shape = decision.judgement.shape
    nodes = zip(decision.judgement.nodes, shape.parents, shape.depths, strict=True)
    return DraftTree(
        decision.proposal.drawing,
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
    """Return the records of the positions after the root and after each accepted node.

    If the last accepted token ends the text, there is no position after it.
    """
    path = decision.walk.path
    examined = (-1, *path) if decision.extra is not None else (-1, *path[:-1])
    return tuple(decision.judgement.row(node).position for node in examined)
