"""The tables of many trees that stand one behind the other, as those of one tree.

As in a tree, row f + 1 is node f, so the root of every tree but the first is a node as well,
without a parent and in nobody's group of siblings. Knows nothing of tokens, distributions or
models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import torch
from torch import Tensor

from specviz.decoding.topology import Topology


def forest_topology(topologies: Sequence[Topology]) -> Topology:
    """The joined tables, without a mask: nobody runs a forest as one text.

    They are made anew only where a tree is known to the device alone.
    """
    trees = tuple(topologies)
    return _join(trees) if any(tree.is_padded for tree in trees) else _known_tables(trees)


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where a tree stands in its forest."""

    tree: Topology
    start: int  # forest row of its root
    size: int  # nodes of the forest

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
    places = [_Place(tree, start, size) for tree, start in zip(trees, starts, strict=False)]
    no_parent = trees[0].parents.new_full((1,), -1)
    parents = [part for at in places for part in (no_parent, at.tree.parents + at.start)][1:]
    ranks = max(len(tree.siblings) for tree in trees)
    siblings = []
    for rank in range(ranks):
        having = [at for at in places if len(at.tree.siblings) > rank]
        rows = torch.cat([at.rows(at.tree.siblings[rank][0]) for at in having])
        nodes = torch.cat([at.nodes(at.tree.siblings[rank][1]) for at in having])
        siblings.append((rows, nodes))
    return Topology(
        size=size,
        height=max(tree.height for tree in trees),
        expanded=size + 1,
        is_chain=False,
        is_padded=any(tree.is_padded for tree in trees),
        parents=torch.cat(parents),
        siblings=tuple(siblings),
        offsets=torch.cat([tree.offsets for tree in trees]),
        mask=trees[0].mask.new_empty(0, 0),
    )


_known_tables = lru_cache(maxsize=256)(_join)
