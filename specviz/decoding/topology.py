"""The shape of a draft tree, on the host and as tensors: who is whose child, and who sees whom.

The shape of a static tree is known on the host and made once. That of a dynamic tree is computed
on the device from its parents, so that the host need not wait for it. Row 0 is the root, row i + 1
is node i. Letters: N nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class TreeShape:
    """A tree on the host: all that follows from its parents."""

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


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """A tree as tensors; every parent comes before its children.

    `height` is the depth of the deepest node, or more. `expanded` counts the leading rows (the root
    included) that may have children. `siblings` lists, for the first, second, … child of a parent,
    the rows that have such a child and these children. If that is not known on the host
    (`is_padded`), it is padded with row N + 1 and node N, which do not exist.
    """

    size: int
    height: int
    expanded: int
    is_chain: bool
    is_padded: bool
    parents: Tensor  # [N] int64, parent node, -1 = root
    siblings: tuple[tuple[Tensor, Tensor], ...]  # rank -> rows [M], nodes [M], int64
    offsets: Tensor  # [N + 1] int64, depth of the root and of every node
    mask: Tensor  # [N + 1, N + 1] bool, True where a row sees a column (its ancestors and itself)

    @property
    def parent_rows(self) -> Tensor:
        """Row of each node's parent. [N]"""
        return self.parents + 1


@lru_cache(maxsize=256)
def topology(parents: tuple[int, ...], device: torch.device) -> Topology:
    """Tables of the tree given by each node's parent (-1 = root).

    >>> tree = topology((-1, -1, 0), torch.device("cpu"))
    >>> [(rows.tolist(), nodes.tolist()) for rows, nodes in tree.siblings]
    [([0, 1], [0, 2]), ([0], [1])]
    """
    shape = tree_shape(parents)
    mask = torch.eye(len(parents) + 1, dtype=torch.bool)
    for node, parent in enumerate(parents):
        mask[node + 1] |= mask[parent + 1]
    return Topology(
        size=len(parents),
        height=max(shape.depths, default=0),
        expanded=max((row + 1 for row, group in enumerate(shape.groups) if group), default=0),
        is_chain=shape.is_chain,
        is_padded=False,
        parents=torch.tensor(parents, dtype=torch.int64).to(device, non_blocking=True),
        siblings=tuple(
            _with_child(shape, rank, device) for rank in range(max(map(len, shape.groups)))
        ),
        offsets=torch.tensor([0, *shape.depths]).to(device, non_blocking=True),
        mask=mask.to(device, non_blocking=True),
    )


def _with_child(shape: TreeShape, rank: int, device: torch.device) -> tuple[Tensor, Tensor]:
    rows = [row for row, group in enumerate(shape.groups) if len(group) > rank]
    nodes = [shape.groups[row][rank] for row in rows]
    return (
        torch.tensor(rows).to(device, non_blocking=True),
        torch.tensor(nodes).to(device, non_blocking=True),
    )


def device_topology(
    parents: Tensor, height: int, width: int, mask: Tensor | None = None
) -> Topology:
    """The same tables for parents [N] (N >= 1) that are known on the device only.

    `height` and `width` bound the depth and the children of one parent; neither is checked. The
    mask follows from the parents; pass it if it has been computed already.
    """
    size = len(parents)
    mask = _mask(parents, height) if mask is None else mask
    return Topology(
        size=size,
        height=height,
        expanded=size + 1,
        is_chain=False,
        is_padded=True,
        parents=parents,
        siblings=_padded_siblings(parents, min(width, size)),
        offsets=mask.sum(1) - 1,
        mask=mask,
    )


def _mask(parents: Tensor, height: int) -> Tensor:
    """[N + 1, N + 1], True where a row sees a column."""
    above = torch.nn.functional.pad(parents + 1, (1, 0))  # the root is its own parent
    mask = torch.eye(len(above), dtype=torch.bool, device=parents.device)
    for _ in range(height):
        mask = mask | mask[above]
    return mask


def _padded_siblings(parents: Tensor, width: int) -> tuple[tuple[Tensor, Tensor], ...]:
    """For every rank all N nodes; those of another rank become the node that does not exist."""
    size, device = len(parents), parents.device
    earlier = (parents[:, None] == parents).tril(-1).sum(1)  # [N] of the same parent
    others = earlier != torch.arange(width, device=device)[:, None]  # [ranks, N]
    rows = (parents + 1).expand(width, -1).masked_fill(others, size + 1)
    nodes = torch.arange(size, device=device).expand(width, -1).masked_fill(others, size)
    return tuple(zip(rows.unbind(), nodes.unbind(), strict=True))
