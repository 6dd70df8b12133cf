"""Speculative decoding of a batch: all prompts draft, verify and commit in the same rounds.

A row is one sequence of the batch. Rows accept different numbers of tokens and end at different
times. Each round has one target forward and one copy to the host for all rows. The decisions about
a row depend on that row alone. They are therefore the same as in a single run (module
`speculative`) with the same prompt and seed. All lists have one entry per row that has not ended.

In shapes, B is the number of rows, N the number of nodes, R = N + 1 the number of rows in the
tables of one tree (its root, then its nodes), E the number of rows up to the last row that can have
children, Q the number of extra queries and V the size of the vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.decoding.batch_options import (
    BatchOptions,
    FixedLimit,
    MeasuredLimit,
    RowsTime,
    shares,
)
from specviz.decoding.batch_target import RaggedTarget, TargetRows
from specviz.decoding.clock import Mark, Stopwatch, mark
from specviz.decoding.drafters.base import (
    ExtraQueries,
    OverlappedWork,
    Partial,
    PrefilledPrompt,
    Proposal,
    empty_proposal,
)
from specviz.decoding.drafters.row_drafters import BatchDrafter
from specviz.decoding.forest import Forest
from specviz.decoding.forward_times import forward_curve, rows_time
from specviz.decoding.masks import next_masks, tree_masks, with_forced
from specviz.decoding.row import Decision, RoundTimes, Row, record_round, record_tree
from specviz.decoding.sampling import draw, masked, uniforms_on
from specviz.decoding.topology import device_topology
from specviz.models.language_model import ForwardOutput
from specviz.models.text.grammar import Grammar
from specviz.records import (
    MOST_MARGIN,
    BatchRound,
    DecodingConfig,
    FinishReason,
    Prefill,
    Round,
    TokenStep,
)


@dataclass(frozen=True, slots=True)
class RowEvent:
    """An event of one row of a batch, where a row is one sequence.

    The seconds in the event are the time of the whole step, in which all rows advance together.
    """

    row: int
    event: Prefill | Round | TokenStep | FinishReason


@dataclass(frozen=True, slots=True)
class BatchStep:
    """The events of one target forward of the batch.

    `tokens` is the number of input positions that contained a token, and `padding` the number of
    empty positions.
    """

    events: tuple[RowEvent, ...]
    seconds: float
    tokens: int
    padding: int


def decode(
    target: TargetRows,
    drafter: BatchDrafter,
    prompts: Sequence[Sequence[int]],
    configs: Sequence[DecodingConfig],
    end_ids: Collection[int] = (),
    options: BatchOptions | None = None,
    grammar: Grammar | None = None,
) -> Iterator[BatchStep]:
    """Yield the prefill and then every round of a batch, until all rows (sequences) have ended.

    `configs` may differ only in their seeds, and `grammar` is their compiled grammar. The generator
    closes the drafter when it ends.
    """
    try:
        rows = new_rows(prompts, configs, end_ids, grammar)
        run = BatchRun(target, drafter, rows, options or BatchOptions())
        yield run.prefill()
        while run.is_going:
            yield run.round()
    finally:
        drafter.close()


def decode_baseline(
    target: TargetRows,
    prompts: Sequence[Sequence[int]],
    configs: Sequence[DecodingConfig],
    end_ids: Collection[int] = (),
    grammar: Grammar | None = None,
) -> Iterator[BatchStep]:
    """Yield the steps of plain decoding of a batch: the prefill, then a token per row and step."""
    rows = new_rows(prompts, configs, end_ids, grammar)
    with torch.inference_mode():
        started = mark(target.model.device)
        logits = [output.logits[0] for output in target.fill(prompts)]
        prefills = _first_tokens(rows, target, logits, started)
    yield _step(rows, prefills, target)
    index = 0
    while going := [place for place, row in enumerate(rows) if row.finish is None]:
        if len(going) < len(rows):
            rows = [rows[place] for place in going]
            target.select(going)
        index += 1
        yield _step(rows, _baseline_steps(target, rows, index), target)


def new_rows(
    prompts: Sequence[Sequence[int]],
    configs: Sequence[DecodingConfig],
    end_ids: Collection[int],
    grammar: Grammar | None = None,
) -> list[Row]:
    """Create one row (sequence) per prompt. `configs` may differ only in their seeds."""
    settings = enumerate(zip(prompts, configs, strict=True))
    return [
        Row(ids, config, end_ids, number, grammar=grammar) for number, (ids, config) in settings
    ]


def _step(
    rows: Sequence[Row], events: Sequence[Prefill | Round | TokenStep], target: TargetRows
) -> BatchStep:
    """Return a step with one event per row, and a finish reason for every row that ended in it."""
    happened = [RowEvent(row.number, each) for row, each in zip(rows, events, strict=True)]
    ended = [RowEvent(row.number, row.finish) for row in rows if row.finish is not None]
    return BatchStep((*happened, *ended), events[0].seconds, target.tokens, target.padding)


def _first_tokens(
    rows: Sequence[Row], target: TargetRows, logits: Sequence[Tensor], started: Mark
) -> list[Prefill]:
    """Draw and commit the first token after every prompt.

    `logits` has one tensor [1, V] per row.
    """
    device = target.model.device
    forest = Forest([empty_proposal(device)] * len(rows))
    draws = [row.extra_draws(0) for row in rows]
    packed = forest.judge(logits, target.sampler, draws, next_masks(rows, device))
    judged = mark(device)
    judgements = forest.unpack(target.to_host(packed))
    seconds = started.seconds_until(judged)
    return [row.begin(each, seconds) for row, each in zip(rows, judgements, strict=True)]


class BatchRun:
    """The state of a batch: the rows that have not ended, the target's cache, and the drafter.

    For each row, the target's cache holds all committed tokens except the last one.
    """

    def __init__(
        self,
        target: TargetRows,
        drafter: BatchDrafter,
        rows: Sequence[Row],
        options: BatchOptions,
    ) -> None:
        self.target = target
        self.rows = list(rows)
        self._drafter = drafter
        # the prompts, which are kept until the drafter has read them
        self._prompts: list[PrefilledPrompt] = []
        self._budget = options.draft_budget
        self._limit = _limit(target, len(rows), options.speculate_up_to)
        # One rule serves all rows, because their settings differ only in the seeds.
        self._rule = self.rows[0].rule
        self._index = 0
        self._seconds = 0.0  # seconds that the batch has decoded so far

    @property
    def is_going(self) -> bool:
        return any(row.finish is None for row in self.rows)

    @torch.inference_mode()
    def prefill(self) -> BatchStep:
        """Run all prompts through the target, and draw the first token after each prompt.

        This token is the root of the row's first draft tree.
        """
        started = mark(self.target.model.device)
        prompts = [tuple(row.committed) for row in self.rows]
        outputs = self.target.fill(prompts)
        for index, (ids, output) in enumerate(zip(prompts, outputs, strict=True)):
            features = None if output.features is None else output.features[0]
            cache, transfer = self.target.cache(index), self.target.transfer
            self._prompts.append(PrefilledPrompt(ids, cache, features, transfer))
        logits = [output.logits[0] for output in outputs]
        prefills = _first_tokens(self.rows, self.target, logits, started)
        self._seconds += prefills[0].seconds
        return _step(self.rows, prefills, self.target)

    @torch.inference_mode()
    def round(self) -> BatchStep:
        """Run one round: draft, verify and commit for every row that has not ended."""
        self._drop_ended()
        limit = self._limit.rows
        stopwatch = Stopwatch(self.target.model.device)
        if self._prompts:
            self._drafter.start([self._prefilled_prompt(row) for row in range(len(self._prompts))])
            self._prompts = []
            if self._drafter.memory.has_caches:
                stopwatch.read()
        proposals = self._draft(self._shares(limit))
        stopwatch.drafted()
        roots, ends = [row.root for row in self.rows], [row.end for row in self.rows]
        outputs = self.target.verify(roots, proposals, ends)
        forest = Forest(proposals, self._rule)
        packed = self._judge(forest, proposals, outputs)
        stopwatch.verified()
        judgements = forest.unpack(self.target.to_host(packed))
        decided = zip(self.rows, proposals, judgements, strict=True)
        decisions = [row.decide(proposal, judgement) for row, proposal, judgement in decided]
        overlapped = self._commit(decisions, outputs)
        rounds = self._record(decisions, stopwatch, overlapped)
        self._limit.add(rounds)
        noted = [self._noted(row, each, limit) for row, each in zip(self.rows, rounds, strict=True)]
        return _step(self.rows, noted, self.target)

    def _drop_ended(self) -> None:
        """Remove the rows that have ended from all caches. At least one row must remain."""
        going = [index for index, row in enumerate(self.rows) if row.finish is None]
        if len(going) < len(self.rows):
            self.rows = [self.rows[index] for index in going]
            self._prompts = [self._prompts[index] for index in going if self._prompts]
            self.target.select(going)
            self._drafter.select(going)

    def _shares(self, limit: int) -> list[int] | None:
        """Return how many nodes each row (sequence) may draft, or None if there is no limit.

        The limits must not depend on the tokens drawn in this round; otherwise verification would
        not be exact.
        """
        rows = len(self.rows)
        if rows > limit:
            return [0] * rows
        return shares(self._budget, rows, self._index) if self._budget else None

    def _draft(self, limits: Sequence[int] | None) -> list[Proposal]:
        committed = [row.committed for row in self.rows]
        rooms = [row.room for row in self.rows]
        forced = [row.forced for row in self.rows]
        if limits is not None:
            rooms = [min(room, limit) for room, limit in zip(rooms, limits, strict=True)]
        rooms = [0 if tokens else room for room, tokens in zip(rooms, forced, strict=True)]
        proposals = self._drafter.propose(committed, rooms, self._index)
        proposals = list(map(with_forced, proposals, forced))
        if limits is None:
            return proposals
        return [first_nodes(each, limit) for each, limit in zip(proposals, limits, strict=True)]

    def _prefilled_prompt(self, row: int) -> PrefilledPrompt:
        """Return the prompt of row `row` with all data that the drafter may use.

        The function `keys_values` of the result returns views of the target's cache.
        """
        prompt = self._prompts[row]
        held = partial(self.target.keys_values, row, len(prompt.prompt_ids))
        return replace(prompt, keys_values=held)

    def _judge(
        self, forest: Forest, proposals: Sequence[Proposal], outputs: Sequence[ForwardOutput]
    ) -> Tensor:
        """Judge the trees of all rows, and copy the results to the host.

        The results are packed into one tensor, so that the round has only one copy to the host.
        """
        pairs = zip(self.rows, proposals, strict=True)
        draws = [row.extra_draws(each.topology.height) for row, each in pairs]
        logits = [output.logits[0] for output in outputs]  # [R + Q, V]
        allowed = tree_masks(self.rows, proposals, self.target.transfer)
        return forest.judge(logits, self.target.sampler, draws, allowed)

    def _commit(
        self, decisions: Sequence[Decision], outputs: Sequence[ForwardOutput]
    ) -> list[OverlappedWork]:
        """Commit the new tokens, keep their cache slots and report the decisions to the drafter."""
        ends = [row.end for row in self.rows]
        self.target.keep(ends, [each.walk.path for each in decisions])
        for row, each in zip(self.rows, decisions, strict=True):
            row.append(each.emitted_ids)
        pairs = zip(decisions, outputs, strict=True)
        return self._drafter.observe(
            [each.observation(output.row_features) for each, output in pairs]
        )

    def _record(
        self,
        decisions: Sequence[Decision],
        stopwatch: Stopwatch,
        overlapped: Sequence[OverlappedWork],
    ) -> list[Round]:
        trees = [record_tree(each) for each in decisions]
        times = RoundTimes.of(stopwatch, self._seconds)
        parts = zip(decisions, trees, overlapped, strict=True)
        rounds = [record_round(self._index, each, tree, times, ran) for each, tree, ran in parts]
        self._index += 1
        self._seconds += rounds[0].seconds
        return rounds

    def _noted(self, row: Row, record: Round, limit: int) -> Round:
        rows, target = len(self.rows), self.target
        note = BatchRound(row.number, rows, target.tokens, target.padding, limit)
        return replace(record, notes=(*record.notes, note))


def _limit(target: TargetRows, rows: int, speculate_up_to: int) -> FixedLimit | MeasuredLimit:
    """Return the limit on unfinished rows; a batch with more unfinished rows drafts nothing.

    The limit is `speculate_up_to`. If that is 0, the limit is computed from measured times.
    """
    return FixedLimit(speculate_up_to) if speculate_up_to else MeasuredLimit(rows, _time_of(target))


def _time_of(target: TargetRows) -> RowsTime:
    """Return a function from (rows, tokens per row) to the seconds of this target's forward."""
    model = target.model
    if isinstance(target, RaggedTarget):
        return partial(rows_time, target.model)
    return lambda rows, count: rows * forward_curve(model).at(count)


def first_nodes(proposal: Proposal, count: int) -> Proposal:
    """Cut a draft tree to its first `count` nodes.

    Parents come before children, so the result is a tree.

    `count` must not depend on the tokens that were drawn. The smaller tree is then one that the
    drafter could have drawn itself, so verification stays exact.
    """
    tree = proposal.topology
    if tree.size <= count:
        return proposal
    partial, queries = (
        _partial(proposal.partial, count),
        _queries(proposal.queries, tree.size, count),
    )
    if count == 0:
        empty = empty_proposal(proposal.token_ids.device, proposal.notes)
        return replace(empty, partial=partial, queries=queries)
    return replace(
        proposal,
        topology=device_topology(tree.parents[:count], tree.height, len(tree.siblings)),
        token_ids=proposal.token_ids[:count],
        distributions=_distributions(proposal.distributions, count),
        raw_distributions=_distributions(proposal.raw_distributions, count),
        origins=proposal.node_origins[:count],
        partial=partial,
        queries=queries,
    )


def _distributions(distributions: Tensor | None, count: int) -> Tensor | None:
    """Cut the distributions to those of the root and the first `count` nodes.

    [E, V] -> [count + 1, V]
    """
    if distributions is None:
        return None
    return F.pad(distributions[: count + 1], (0, 0, 0, max(0, count + 1 - len(distributions))))


def _partial(partial: Partial | None, count: int) -> Partial | None:
    return partial and Partial(partial.layers, partial.hidden[: count + 1])


def _queries(queries: ExtraQueries | None, size: int, count: int) -> ExtraQueries | None:
    """Remove the nodes after the first `count` from the attention mask of the extra queries."""
    if queries is None:
        return None
    mask = torch.cat([queries.mask[:, : count + 1], queries.mask[:, size + 1 :]], 1)
    return ExtraQueries(queries.token_ids, queries.offsets, mask)


@torch.inference_mode()
def _baseline_steps(target: TargetRows, rows: Sequence[Row], index: int) -> list[TokenStep]:
    started = time.perf_counter()
    logits = target.step([row.root for row in rows], [row.end for row in rows])  # [B, V]
    uniforms = uniforms_on(logits.device, [row.extra_draws(0)[0] for row in rows])
    masks = next_masks(rows, logits.device)
    logits = masked(logits, None if masks is None else torch.cat(masks))
    token_ids = draw(target.sampler.distributions(logits), uniforms)[:, None]  # [B, 1]
    best = logits.float().topk(2).values
    margins = (best[:, 0] - best[:, 1]).clamp(max=MOST_MARGIN)
    raw_probs = (logits.gather(1, token_ids).float()[:, 0] - logits.float().logsumexp(-1)).exp()
    numbers = (token_ids[:, 0].double(), raw_probs.double(), margins.double())
    values = target.to_host(torch.cat(numbers))
    drawn, probs, gaps = (values[i * len(rows) : (i + 1) * len(rows)] for i in range(3))
    for row, token_id in zip(rows, drawn, strict=True):
        row.append([int(token_id)])
    seconds = time.perf_counter() - started
    return [
        TokenStep(index, int(token_id), prob, margin, seconds)
        for token_id, prob, margin in zip(drawn, probs, gaps, strict=True)
    ]
