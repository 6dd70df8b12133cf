"""Choose which nodes a draft tree has, and how many, so that decoding is fastest.

A table says how often the k-th choice of a drafter is right. These rates determine the gain of each
node, which is the probability that the node is accepted. Medusa (arXiv 2401.10774) and Sequoia
(arXiv 2402.12374) build their trees from such a table. The cost of the tree is the measured time of
the target's forward.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
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

# `rates[d - 1][r]` says how often the drafter's choice with rank r (from 0) at depth d (from 1) is
# right.
Rates = tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class RankedNode:
    """A node of a draft tree: the choice with this rank (from 0) below `parent` (-1 = root).

    `gain` is the probability that the node and its whole path are accepted.
    """

    gain: float
    depth: int
    rank: int
    parent: int


@lru_cache(maxsize=64)
def ranked_nodes(rates: Rates, most: int) -> tuple[RankedNode, ...]:
    """Return the best nodes, at most `most` of them, sorted by gain.

    A parent always comes before its children. A node with depth d and rank r has the gain of its
    parent times rates[d - 1][r]. This assumes that choices at different depths are right
    independently.

    >>> [round(node.gain, 4) for node in ranked_nodes(((0.6, 0.14), (0.6, 0.14)), 4)]
    [0.6, 0.36, 0.14, 0.084]
    """
    # a heap of the nodes that could be added next, each as (-gain, depth, rank, parent)
    waiting: list[tuple[float, int, int, int]] = []
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
    """Sort the nodes by depth, and keep their order within each depth.

    The first n nodes then always form a tree.

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
    model: LanguageModel,
    gains: Sequence[float],
    drafting: Callable[[int], float] = lambda nodes: 0.0,
    slack: float = 0.0,
) -> int:
    """Return the number of nodes that gives the highest expected speed.

    With n nodes the speed is (1 + expected accepted tokens) / (drafting(n) + forward over 1 + n
    tokens). `gains` has the acceptance probabilities of the nodes, best first (1 to 64 nodes).
    `drafting` returns the seconds that it takes to draft n nodes. The result is the largest number
    of nodes whose speed is at least the best speed times (1 - `slack`).
    """
    curve = forward_curve(model)
    rates = [
        (1 + sum(gains[:count])) / (drafting(count) + curve.at(count + 1))
        for count in range(1, len(gains) + 1)
    ]
    good = (1 - slack) * max(rates)
    return max(count for count, rate in enumerate(rates, start=1) if rate >= good)
