"""The shape of a draft tree, on the host and as tensors: parents, siblings and attention mask.

The host knows the shape of a static tree, so its tables are built once. The shape of a dynamic tree
is known only to the device. In that case the device computes the tables from the parents, so that
the host does not wait. Row 0 of a table is the root, and row i + 1 is node i. In shapes, N is the
number of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import torch
from torch import Tensor

from specviz.models.accelerator import upload

# One entry per rank: the rows [M] that have a child of this rank, and these children [M]. Both are
# int64.
Siblings = tuple[tuple[Tensor, Tensor], ...]


@dataclass(frozen=True, slots=True)
class TreeShape:
    """The shape of a tree on the host. All other fields are computed from `parents`."""

    parents: tuple[int, ...]  # parent of each node, -1 = root
    depths: tuple[int, ...]  # depth of each node, from 1
    ranks: tuple[int, ...]  # index of each node among its siblings
    # the child nodes of each row, in the order in which they were drawn
    groups: tuple[tuple[int, ...], ...]

    @property
    def size(self) -> int:
        return len(self.parents)

    @property
    def is_chain(self) -> bool:
        return self.parents == tuple(range(-1, len(self.parents) - 1))


@lru_cache(maxsize=1024)
def tree_shape(parents: tuple[int, ...]) -> TreeShape:
    """Return the shape of the tree in which node i has the parent `parents[i]` (-1 = root).

    A parent must come before its children.

    >>> tree_shape((-1, -1, 0)).groups
    ((0, 1), (2,), (), ())
    """
    groups: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    depths: list[int] = []
    ranks: list[int] = []
    for node, parent in enumerate(parents):
        assert -1 <= parent < node, f"parent {parent} of node {node} must come before it"
        depths.append(1 + (depths[parent] if parent >= 0 else 0))
        ranks.append(len(groups[parent + 1]))
        groups[parent + 1].append(node)
    return TreeShape(parents, tuple(depths), tuple(ranks), tuple(map(tuple, groups)))


@dataclass(frozen=True, slots=True, eq=False)
class Topology:
    """The tables of a draft tree as tensors. Every parent comes before its children.

    `height` is at least the depth of the deepest node. `expanded` is the number of rows, the root
    included, up to the last row that can have children. Entry r of `siblings` lists the rows that
    have a child with rank r (from 0), and these children. If only the device knows the siblings,
    `is_padded` is True. The lists are then filled up with row N + 1 and node N, which do not exist.
    Entry d of `known_levels` has the same lists for the rows at depth d only; it can be empty.
    """

    size: int
    height: int
    expanded: int
    is_chain: bool
    is_padded: bool
    parents: Tensor  # [N] int64, parent node, -1 = root
    siblings: Siblings
    offsets: Tensor  # [N + 1] int64, depth of the root and of every node
    mask: Tensor  # [N + 1, N + 1] bool, True where a row sees a column (ancestors and itself)
    known_levels: tuple[Siblings, ...] = ()

    @property
    def levels(self) -> tuple[Siblings, ...]:
        """Return the lists of `siblings` for each level of rows, from the root down.

        If the levels are not known to the host, every level has the lists of the whole tree.
        """
        return self.known_levels or (self.siblings,) * self.height

    @property
    def parent_rows(self) -> Tensor:
        """Return the row of each node's parent. -> [N]"""
        return self.parents + 1

    @property
    def layout(self) -> TreeLayout:
        return TreeLayout(
            self.size, self.height, self.expanded, self.is_chain, self.is_padded, len(self.siblings)
        )

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Return all tables as one tuple. `TreeLayout.topology` rebuilds the topology from it."""
        return (self.parents, self.offsets, self.mask, *chain.from_iterable(self.siblings))


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """The fields of a `Topology` that are not tensors."""

    size: int
    height: int
    expanded: int
    is_chain: bool
    is_padded: bool
    ranks: int

    def topology(self, tensors: Sequence[Tensor]) -> Topology:
        """Build a topology from the tables that `Topology.tensors` returned."""
        parents, offsets, mask, *tables = tensors
        siblings = tuple(zip(tables[::2], tables[1::2], strict=True))
        shape = (self.size, self.height, self.expanded, self.is_chain, self.is_padded)
        return Topology(*shape, parents, siblings, offsets, mask)


@lru_cache(maxsize=256)
def topology(parents: tuple[int, ...], device: torch.device) -> Topology:
    """Build the tables of a tree from the parent of each node (-1 = root).

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
        parents=upload(torch.tensor(parents, dtype=torch.int64), device),
        siblings=_with_children(shape, range(len(parents) + 1), device),
        offsets=upload(torch.tensor([0, *shape.depths]), device),
        mask=upload(mask, device),
        known_levels=tuple(
            _with_children(
                shape, [row for row, at in enumerate((0, *shape.depths)) if at == depth], device
            )
            for depth in range(max(shape.depths, default=0))
        ),
    )


def _with_children(shape: TreeShape, rows: Sequence[int], device: torch.device) -> Siblings:
    """Return, for each rank, which of `rows` have a child of this rank, and these children."""
    lists = []
    for rank in range(max(len(shape.groups[row]) for row in rows)):
        having = [row for row in rows if len(shape.groups[row]) > rank]
        nodes = [shape.groups[row][rank] for row in having]
        lists.append((upload(torch.tensor(having), device), upload(torch.tensor(nodes), device)))
    return tuple(lists)


def device_topology(
    parents: Tensor, height: int, width: int, mask: Tensor | None = None
) -> Topology:
    """Build the tables of a tree whose parents [N] (N >= 1) only the device knows.

    The depth must be at most `height`, and a parent must have at most `width` children. These two
    rules are not checked. The mask is computed from the parents, unless the caller passes it.
    """
    mask = _mask(parents, height) if mask is None else mask
    layout = device_layout(len(parents), height, width)
    siblings = chain.from_iterable(_padded_siblings(parents, layout.ranks))
    return layout.topology((parents, mask.sum(1) - 1, mask, *siblings))


def device_layout(size: int, height: int, width: int) -> TreeLayout:
    """Return the layout (size, height, …) of a tree whose parents only the device knows."""
    return TreeLayout(
        size, height, expanded=size + 1, is_chain=False, is_padded=True, ranks=min(width, size)
    )


def _mask(parents: Tensor, height: int) -> Tensor:
    """Return the attention mask: True where a row sees a column (ancestors and itself).

    -> [N + 1, N + 1]
    """
    # `above` has the row of each row's parent; the root is its own parent.
    above = torch.nn.functional.pad(parents + 1, (1, 0))
    mask = torch.eye(len(above), dtype=torch.bool, device=parents.device)
    for _ in range(height):
        mask = mask | mask[above]
    return mask


def _padded_siblings(parents: Tensor, width: int) -> tuple[tuple[Tensor, Tensor], ...]:
    """List all N nodes once for each rank that a child can have.

    In the list of a rank, nodes with another rank are replaced by node N, which does not exist.
    """
    size, device = len(parents), parents.device
    # [N], how many earlier nodes have the same parent
    earlier = (parents[:, None] == parents).tril(-1).sum(1)
    others = earlier != torch.arange(width, device=device)[:, None]  # [ranks, N]
    rows = (parents + 1).expand(width, -1).masked_fill(others, size + 1)
    nodes = torch.arange(size, device=device).expand(width, -1).masked_fill(others, size)
    return tuple(zip(rows.unbind(), nodes.unbind(), strict=True))
