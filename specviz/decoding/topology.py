"""The shape of a draft tree as tensors: who is whose child, and who sees whom.

Knows nothing of tokens, laws or models. Letters: N nodes. Row 0 of a table that runs over
parents is the root, row i + 1 is node i.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """A tree whose every parent stands before its children.

    `expanded` counts the leading rows (root included) that may have children. `siblings` holds, for
    the first, second, … child of a parent, the rows that have one and the nodes that they are.
    """

    parents: tuple[int, ...]  # node -> parent node, -1 = root
    depths: tuple[int, ...]  # node -> depth, from 1
    ranks: tuple[int, ...]  # node -> index among its siblings
    groups: tuple[tuple[int, ...], ...]  # row -> its nodes in draw order
    expanded: int
    is_chain: bool
    parent_rows: Tensor  # [N] int64, row of each node's parent
    siblings: tuple[tuple[Tensor, Tensor], ...]  # rank -> rows [M], nodes [M], int64
    offsets: Tensor  # [N + 1] int64, depth of the root and of every node
    mask: Tensor  # [N + 1, N + 1] bool, True where a row sees a column (ancestors and itself)

    @property
    def size(self) -> int:
        return len(self.parents)

    @property
    def height(self) -> int:
        return max(self.depths, default=0)


@lru_cache(maxsize=256)
def topology(parents: tuple[int, ...], device: torch.device) -> Topology:
    """Tables of the tree given by each node's parent (-1 = root).

    >>> tree = topology((-1, -1, 0), torch.device("cpu"))
    >>> [(rows.tolist(), nodes.tolist()) for rows, nodes in tree.siblings]
    [([0, 1], [0, 2]), ([0], [1])]
    """
    groups: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    depths: list[int] = []
    ranks: list[int] = []
    mask = torch.eye(len(parents) + 1, dtype=torch.bool)
    for node, parent in enumerate(parents):
        assert -1 <= parent < node, f"parent {parent} of node {node} must stand before it"
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
        ranks.append(len(groups[parent + 1]))
        groups[parent + 1].append(node)
        mask[node + 1] |= mask[parent + 1]
    expanded = max((row + 1 for row, group in enumerate(groups) if group), default=0)
    return Topology(
        parents=parents,
        depths=tuple(depths),
        ranks=tuple(ranks),
        groups=tuple(map(tuple, groups)),
        expanded=expanded,
        is_chain=parents == tuple(range(-1, len(parents) - 1)),
        parent_rows=torch.tensor([parent + 1 for parent in parents], dtype=torch.int64).to(device),
        siblings=tuple(_with_child(groups, rank, device) for rank in range(max(map(len, groups)))),
        offsets=torch.tensor([0, *depths]).to(device),
        mask=mask.to(device),
    )


def _with_child(groups: list[list[int]], rank: int, device: torch.device) -> tuple[Tensor, Tensor]:
    rows = [row for row, group in enumerate(groups) if len(group) > rank]
    nodes = [groups[row][rank] for row in rows]
    return torch.tensor(rows).to(device), torch.tensor(nodes).to(device)
