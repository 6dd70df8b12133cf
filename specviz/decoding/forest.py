"""Many draft trees judged as one: the rows of a batch share every tensor operation and one buffer.

The trees stand one behind the other. As in a tree, row f + 1 of the forest is its node f, so the
root of every tree but the first is a node as well: one that nobody drafted, nobody's sibling, and
read by no one. Distributions, residuals and draws of one tree never meet those of another. Knows
nothing of models, caches or what is accepted. Letters: R rows of one tree (its root, then its
nodes), E of them that have children, Q its extra queries, F = sum of R, the rows of the forest, V
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Proposal
from specviz.decoding.forest_topology import forest_topology
from specviz.decoding.judgement import NODE_FIELDS, PARENT_FIELD, Judgement, judge, unpack
from specviz.decoding.sampling import Sampler, uniforms_on
from specviz.decoding.topology import Topology


class Forest:
    """The trees of all rows; those of one proposal kind are judged together."""

    def __init__(self, proposals: Sequence[Proposal]) -> None:
        self._proposals = proposals
        self._groups = _groups(proposals)

    def judge(
        self, logits: Sequence[Tensor], sampler: Sampler, extra_draws: Sequence[Sequence[float]]
    ) -> Tensor:
        """Pack the target's judgement. logits: [R + Q, V] of each tree -> [packed] float32

        `extra_draws`: for each tree, the uniform of the extra token behind every depth from 0 on.
        """
        packed = [
            _judge(
                [self._proposals[index] for index in group],
                [logits[index] for index in group],
                sampler,
                [extra_draws[index] for index in group],
            )
            for group in self._groups
        ]
        return packed[0] if len(packed) == 1 else torch.cat(packed)

    def unpack(self, values: list[float]) -> list[Judgement]:
        """Read the buffer that `judge` packed: each tree's judgement as if it stood alone."""
        if len(self._proposals) == 1:
            return [unpack(self._proposals[0], values)]
        row_fields = self._row_fields(len(values))
        judgements: dict[int, Judgement] = {}
        start = 0
        for group in self._groups:
            chosen = [self._proposals[index] for index in group]
            end = start + _length(chosen, row_fields)
            judgements.update(
                zip(group, _split(chosen, values[start:end], row_fields), strict=True)
            )
            start = end
        return [judgements[index] for index in range(len(self._proposals))]

    def _row_fields(self, length: int) -> int:
        """How many numbers the buffer has per row, told from its length."""
        rows = sum(map(_rows, self._proposals))
        groups = ([self._proposals[index] for index in group] for group in self._groups)
        return (length - sum(_length(group, 0) for group in groups)) // rows


def _groups(proposals: Sequence[Proposal]) -> list[list[int]]:
    """Which trees can be judged together; one without nodes goes with any other."""
    groups: dict[object, list[int]] = {}
    for index, each in enumerate(proposals):
        if each.topology.size:
            key = (each.kind, each.distributions is None, each.raw_distributions is None)
            groups.setdefault(key, []).append(index)
    empty = [index for index, each in enumerate(proposals) if not each.topology.size]
    first, *others = groups.values() or [[]]
    return [first + empty, *others]


def _rows(proposal: Proposal) -> int:
    return proposal.topology.size + 1


def _length(proposals: Sequence[Proposal], row_fields: int) -> int:
    """Numbers in the buffer of one group."""
    rows = sum(map(_rows, proposals))
    queries = sum(each.query_count for each in proposals)
    return NODE_FIELDS * (rows - 1) + row_fields * rows + queries


def _split(proposals: Sequence[Proposal], values: list[float], row_fields: int) -> list[Judgement]:
    """A group's buffer, tree by tree; parents count from the tree's own root again."""
    starts = list(accumulate(map(_rows, proposals), initial=0))
    first_row = NODE_FIELDS * (starts[-1] - 1)
    query = first_row + row_fields * starts[-1]
    judgements = []
    for each, (start, end) in zip(proposals, pairwise(starts), strict=True):
        nodes = values[NODE_FIELDS * start : NODE_FIELDS * (end - 1)]
        for index in range(PARENT_FIELD, len(nodes), NODE_FIELDS):
            nodes[index] -= start
        rows = values[first_row + row_fields * start : first_row + row_fields * end]
        queries = values[query : query + each.query_count]
        query += each.query_count
        judgements.append(unpack(each, nodes + rows + queries))
    return judgements


def _judge(
    proposals: Sequence[Proposal],
    logits: Sequence[Tensor],
    sampler: Sampler,
    extra_draws: Sequence[Sequence[float]],
) -> Tensor:
    """One group's buffer."""
    uniforms = uniforms_on(logits[0].device, [draw for draws in extra_draws for draw in draws])
    if len(proposals) == 1:
        tree = proposals[0]
        return judge(tree, logits[0], sampler, uniforms[tree.topology.offsets])
    tables = forest_topology([each.topology for each in proposals])
    starts = accumulate(map(len, extra_draws), initial=0)
    depths = zip(proposals, starts, strict=False)
    draws = torch.cat([each.topology.offsets + start for each, start in depths])
    return judge(_joined(proposals, tables), _ordered(proposals, logits), sampler, uniforms[draws])


def _ordered(proposals: Sequence[Proposal], logits: Sequence[Tensor]) -> Tensor:
    """All rows of the forest, then all extra queries. -> [F + sum of Q, V]"""
    pairs = list(zip(proposals, logits, strict=True))
    rows = [each[: _rows(proposal)] for proposal, each in pairs]
    return torch.cat(rows + [each[_rows(proposal) :] for proposal, each in pairs])


def _joined(proposals: Sequence[Proposal], tables: Topology) -> Proposal:
    """The trees as one proposal; a row without children has the distribution of zeros."""
    drafted = next((each for each in proposals if each.topology.size), proposals[0])
    root = tables.parents.new_zeros(1)
    between = [part for each in proposals for part in (root, each.token_ids)][1:]
    origins = [part for each in proposals for part in (root, each.node_origins)][1:]
    return Proposal(
        drafted.kind,
        tables,
        torch.cat(between),
        _stacked(proposals, [each.distributions for each in proposals]),
        _stacked(proposals, [each.raw_distributions for each in proposals]),
        torch.cat(origins),
    )


def _stacked(
    proposals: Sequence[Proposal], distributions: Sequence[Tensor | None]
) -> Tensor | None:
    """[E, V] of each -> [F, V]; None where no tree has any."""
    like = next((each for each in distributions if each is not None), None)
    if like is None:
        return None
    parts = []
    for proposal, distribution in zip(proposals, distributions, strict=True):
        held = 0 if distribution is None else len(distribution)
        if distribution is not None:
            parts.append(distribution)
        parts.append(like.new_zeros(_rows(proposal) - held, like.shape[1]))
    return torch.cat(parts)
