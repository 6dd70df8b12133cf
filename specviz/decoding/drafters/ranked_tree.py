"""The most promising nodes of a tree, told from how often a drafter's k-th choice is right.

The best nodes are taken first (Medusa 2401.10774 and Sequoia 2402.12374 build their trees from such
a table). Knows nothing of models or of time.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import lru_cache

Rates = tuple[tuple[float, ...], ...]  # depth - 1 -> rank -> how often that choice is right


@dataclass(frozen=True, slots=True)
class RankedNode:
    """The choice of `rank` (from 0) under the node `parent` (-1 = root).

    `gain` is the chance that it is accepted, its whole path included.
    """

    gain: float
    depth: int
    rank: int
    parent: int


@lru_cache(maxsize=64)
def ranked_nodes(rates: Rates, most: int) -> tuple[RankedNode, ...]:
    """The best nodes, best first, so every parent before its children; at most `most` of them.

    A node of depth d and rank r under a node of chance c has c * rates[d - 1][r], as if choices at
    different depths were right independently of each other.

    >>> [round(node.gain, 4) for node in ranked_nodes(((0.6, 0.14), (0.6, 0.14)), 4)]
    [0.6, 0.36, 0.14, 0.084]
    """
    waiting: list[tuple[float, int, int, int]] = []  # -gain, depth, rank, parent
    nodes: list[RankedNode] = []

    def grow(gain: float, depth: int, parent: int) -> None:
        for rank, rate in enumerate(rates[depth - 1] if depth <= len(rates) else ()):
            heapq.heappush(waiting, (-gain * rate, depth, rank, parent))

    grow(1.0, 1, -1)
    while waiting and len(nodes) < most:
        loss, depth, rank, parent = heapq.heappop(waiting)
        nodes.append(RankedNode(-loss, depth, rank, parent))
        grow(-loss, depth + 1, len(nodes) - 1)
    return tuple(nodes)


def by_depth(nodes: tuple[RankedNode, ...]) -> tuple[RankedNode, ...]:
    """The same tree level by level, so that a shallower tree is the beginning of it.

    Siblings stay in their order.

    >>> nodes = ranked_nodes(((0.6, 0.14), (0.6, 0.14)), 3)
    >>> [(node.depth, node.rank, node.parent) for node in by_depth(nodes)]
    [(1, 0, -1), (1, 1, -1), (2, 0, 0)]
    """
    order = sorted(range(len(nodes)), key=lambda index: nodes[index].depth)
    place = {index: new for new, index in enumerate(order)} | {-1: -1}
    return tuple(
        RankedNode(node.gain, node.depth, node.rank, place[node.parent])
        for node in (nodes[index] for index in order)
    )
