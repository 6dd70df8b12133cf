"""Which nodes a tree should have, and how many: the most tokens per second of target forward.

The gain of a node follows from a table of how often a drafter's k-th choice is right (Medusa
2401.10774 and Sequoia 2402.12374 build their trees from such a table), the cost of the tree from
the measured time of the target's forward.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from specviz.decoding.drafters.method import Option
from specviz.decoding.forward_times import forward_curve
from specviz.models.language_model import LanguageModel
from specviz.records import MAX_TREE_NODES

NODES = Option(
    "nodes",
    "Nodes verified",
    0,
    0,
    MAX_TREE_NODES,
    "0: chosen from the measured forward times",
    usual="4,8,16,32",
)

Rates = tuple[tuple[float, ...], ...]  # depth - 1 -> rank -> how often that choice is right


@dataclass(frozen=True, slots=True)
class RankedNode:
    """The choice of `rank` (from 0) under the node `parent` (-1 = root).

    `gain` is the probability that it and its whole path are accepted.
    """

    gain: float
    depth: int
    rank: int
    parent: int


@lru_cache(maxsize=64)
def ranked_nodes(rates: Rates, most: int) -> tuple[RankedNode, ...]:
    """At most `most` nodes, best first, so every parent before its children.

    A node of depth d and rank r has the gain of its parent times rates[d - 1][r], as if choices at
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
    """The same tree level by level, siblings in the same order; so its beginning is a lower tree.

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


def best_node_count(
    model: LanguageModel, gains: Sequence[float], drafting: float = 0.0, slack: float = 0.0
) -> int:
    """Nodes n of the largest (1 + expected accepted) / (`drafting` + forward over 1 + n tokens).

    `gains` are the nodes' probabilities of acceptance, best first (1 to 64 of them); `drafting` is
    in seconds. Of all counts whose rate is within the share `slack` of the best, the largest.
    """
    curve = forward_curve(model)
    rates = [
        (1 + sum(gains[:count])) / (drafting + curve.at(count + 1))
        for count in range(1, len(gains) + 1)
    ]
    good = (1 - slack) * max(rates)
    return max(count for count, rate in enumerate(rates, start=1) if rate >= good)
