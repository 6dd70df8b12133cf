"""The shape of a draft tree on the host: depths, ranks among siblings, children in draw order.

Knows nothing of tensors or tokens. Row 0 is the root, row i + 1 is node i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class TreeShape:
    """Everything that follows from the parents alone."""

    parents: tuple[int, ...]  # node -> parent node, -1 = root
    depths: tuple[int, ...]  # node -> depth, from 1
    ranks: tuple[int, ...]  # node -> index among its siblings
    groups: tuple[tuple[int, ...], ...]  # row -> its nodes in draw order

    @property
    def size(self) -> int:
        return len(self.parents)

    @property
    def is_chain(self) -> bool:
        return self.parents == tuple(range(-1, len(self.parents) - 1))


@lru_cache(maxsize=1024)
def tree_shape(parents: tuple[int, ...]) -> TreeShape:
    """The shape given by each node's parent (-1 = root), every parent before its children.

    >>> tree_shape((-1, -1, 0)).groups
    ((0, 1), (2,), (), ())
    """
    groups: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    depths: list[int] = []
    ranks: list[int] = []
    for node, parent in enumerate(parents):
        assert -1 <= parent < node, f"parent {parent} of node {node} must stand before it"
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
        ranks.append(len(groups[parent + 1]))
        groups[parent + 1].append(node)
    return TreeShape(parents, tuple(depths), tuple(ranks), tuple(map(tuple, groups)))
