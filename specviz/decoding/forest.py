"""Judge the draft trees of a batch together, so that all trees share each tensor operation.

To judge a tree is to compute for every node whether the target accepts it. The trees are
concatenated to one large tree, the forest. Row 0 of the forest is the root of the first tree. As in
a single tree, row f + 1 is node f. The roots of the other trees are therefore nodes of the forest.
They have no parent and no siblings, and nothing reads their judgement. Distributions, residuals and
draws of different trees never mix.

In shapes, R is the number of rows of one tree (its root, then its nodes), E the number of rows of
that tree up to the last row that can have children, Q the number of its extra queries, F the number
of rows of the forest (the sum of R) and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Proposal
from specviz.decoding.rules import token_by_token
from specviz.decoding.rules.rule import Rule
from specviz.decoding.sampling import Sampler, uniforms_on
from specviz.decoding.topology import Siblings, Topology
from specviz.decoding.verification import NODE_FIELDS, PARENT_FIELD, TreeJudgement, judge, unpack


class Forest:
    """The draft trees of a batch. Trees that were drawn in the same way are judged together."""

    def __init__(self, proposals: Sequence[Proposal], rule: Rule = token_by_token.RULE) -> None:
        self._rule = rule
        self._proposals = proposals
        self._groups = _groups(proposals)

    def judge(
        self,
        logits: Sequence[Tensor],
        sampler: Sampler,
        extra_draws: Sequence[Sequence[float]],
        allowed: Sequence[Tensor] | None = None,
    ) -> Tensor:
        """Judge all trees without waiting for the device.

        `logits` has [R + Q, V] per tree. The result is one packed float32 tensor. `extra_draws`
        has, for each tree, the random numbers for the extra token after 0, 1, … accepted nodes.
        `allowed` has, for each tree, the tokens [R, V] that the grammar allows.
        """
        packed = [
            _judge(
                [self._proposals[index] for index in group],
                [logits[index] for index in group],
                sampler,
                [extra_draws[index] for index in group],
                self._rule,
                None if allowed is None else torch.cat([allowed[index] for index in group]),
            )
            for group in self._groups
        ]
        return packed[0] if len(packed) == 1 else torch.cat(packed)

    def unpack(self, values: list[float]) -> list[TreeJudgement]:
        """Read the numbers that `judge` packed.

        Return one judgement per tree. It equals the judgement of that tree in a single run.
        """
        if len(self._proposals) == 1:
            return [unpack(self._proposals[0], values)]
        row_fields = self._row_fields(len(values))
        judgements: dict[int, TreeJudgement] = {}
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
        """Return how many numbers the buffer of `judge` has for each row of a tree.

        `length` is the length of the buffer. The buffer also has numbers for nodes and for extra
        queries.
        """
        rows = sum(map(_rows, self._proposals))
        groups = ([self._proposals[index] for index in group] for group in self._groups)
        return (length - sum(_length(group, 0) for group in groups)) // rows


def _groups(proposals: Sequence[Proposal]) -> list[list[int]]:
    """Return groups of tree indices. The trees of a group can be judged together.

    An empty tree fits into every group.
    """
    groups: dict[object, list[int]] = {}
    for index, each in enumerate(proposals):
        if each.topology.size:
            key = (each.drawing, each.distributions is None, each.raw_distributions is None)
            groups.setdefault(key, []).append(index)
    empty = [index for index, each in enumerate(proposals) if not each.topology.size]
    first, *others = groups.values() or [[]]
    return [first + empty, *others]


def _rows(proposal: Proposal) -> int:
    return proposal.topology.size + 1


def _length(proposals: Sequence[Proposal], row_fields: int) -> int:
    rows = sum(map(_rows, proposals))
    queries = sum(each.query_count for each in proposals)
    return NODE_FIELDS * (rows - 1) + row_fields * rows + queries


def _split(
    proposals: Sequence[Proposal], values: list[float], row_fields: int
) -> list[TreeJudgement]:
    """Split the judgement of a group of trees into one judgement per tree.

    In the result, the parent of a node is given by the index of that parent in its own tree.
    """
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
    rule: Rule,
    allowed: Tensor | None,  # [F, V]
) -> Tensor:
    uniforms = uniforms_on(logits[0].device, [draw for draws in extra_draws for draw in draws])
    if len(proposals) == 1:
        tree = proposals[0]
        return judge(tree, logits[0], sampler, uniforms[tree.topology.offsets], rule, allowed)
    tables = forest_topology([each.topology for each in proposals])
    starts = accumulate(map(len, extra_draws), initial=0)
    depths = zip(proposals, starts, strict=False)
    draws = torch.cat([each.topology.offsets + start for each, start in depths])
    joined, rows = _joined(proposals, tables), _ordered(proposals, logits)
    return judge(joined, rows, sampler, uniforms[draws], rule, allowed)


def _ordered(proposals: Sequence[Proposal], logits: Sequence[Tensor]) -> Tensor:
    """Concatenate the logits of all rows of the forest, then of all extra queries.

    The result has shape [F + sum of Q, V].
    """
    pairs = list(zip(proposals, logits, strict=True))
    rows = [each[: _rows(proposal)] for proposal, each in pairs]
    return torch.cat(rows + [each[_rows(proposal) :] for proposal, each in pairs])


def _joined(proposals: Sequence[Proposal], tables: Topology) -> Proposal:
    """Join the trees into one proposal. Its rows without a distribution get zeros."""
    drafted = next((each for each in proposals if each.topology.size), proposals[0])
    root = tables.parents.new_zeros(1)
    between = [part for each in proposals for part in (root, each.token_ids)][1:]
    origins = [part for each in proposals for part in (root, each.node_origins)][1:]
    return Proposal(
        tables,
        torch.cat(between),
        _stacked(proposals, [each.distributions for each in proposals]),
        _stacked(proposals, [each.raw_distributions for each in proposals]),
        torch.cat(origins),
        drawing=drafted.drawing,
    )


def _stacked(
    proposals: Sequence[Proposal], distributions: Sequence[Tensor | None]
) -> Tensor | None:
    """Concatenate the distributions: [E, V] per tree -> [F, V].

    Return None if no tree has distributions.
    """
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


def forest_topology(topologies: Sequence[Topology]) -> Topology:
    """Concatenate the tables of several trees into those of a forest.

    The result has no attention mask, because a forest is judged but never run as one sequence. The
    result is cached, unless it contains a tree whose parents only the device knows.
    """
    trees = tuple(topologies)
    return _join(trees) if any(tree.is_padded for tree in trees) else _known_tables(trees)


@dataclass(frozen=True, slots=True, eq=False)
class _TreeInForest:
    """A tree of a batch, and the row of the forest at which the rows of this tree start."""

    tree: Topology
    start: int  # the row of the forest that holds the tree's root
    size: int

    def rows(self, rows: Tensor) -> Tensor:
        return self._moved(rows, self.tree.size + 1, self.size + 1)

    def nodes(self, nodes: Tensor) -> Tensor:
        return self._moved(nodes, self.tree.size, self.size)

    def _moved(self, indices: Tensor, absent: int, joined_absent: int) -> Tensor:
        moved = indices + self.start
        return moved.masked_fill(indices == absent, joined_absent) if self.tree.is_padded else moved


def _join(trees: tuple[Topology, ...]) -> Topology:
    starts = list(accumulate((tree.size + 1 for tree in trees), initial=0))
    size = starts[-1] - 1
    places = [_TreeInForest(tree, start, size) for tree, start in zip(trees, starts, strict=False)]
    no_parent = trees[0].parents.new_full((1,), -1)
    parents = [part for at in places for part in (no_parent, at.tree.parents + at.start)][1:]
    height, is_padded = max(tree.height for tree in trees), any(tree.is_padded for tree in trees)
    levels = [
        [(at, at.tree.known_levels[depth]) for at in places if depth < len(at.tree.known_levels)]
        for depth in range(height)
    ]
    return Topology(
        size=size,
        height=height,
        expanded=size + 1,
        is_chain=False,
        is_padded=is_padded,
        parents=torch.cat(parents),
        siblings=_joined_lists([(at, at.tree.siblings) for at in places]),
        offsets=torch.cat([tree.offsets for tree in trees]),
        mask=trees[0].mask.new_empty(0, 0),
        known_levels=() if is_padded else tuple(map(_joined_lists, levels)),
    )


def _joined_lists(
    parts: Sequence[tuple[_TreeInForest, Siblings]],
) -> Siblings:
    """Concatenate the lists of several trees, rank by rank; see `Topology.siblings`."""
    lists = []
    for rank in range(max(len(each) for _, each in parts)):
        having = [(at, each[rank]) for at, each in parts if len(each) > rank]
        rows = torch.cat([at.rows(rows) for at, (rows, _) in having])
        nodes = torch.cat([at.nodes(nodes) for at, (_, nodes) in having])
        lists.append((rows, nodes))
    return tuple(lists)


_known_tables = lru_cache(maxsize=256)(_join)
