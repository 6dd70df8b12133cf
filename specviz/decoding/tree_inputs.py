"""What a draft tree feeds to the target: root, nodes and extra queries in one sequence.

Knows nothing of models or caches. Letters: N tokens of the root, the nodes and the queries.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.decoding.drafters.base import Proposal


@dataclass(frozen=True, slots=True, eq=False)
class TreeInputs:
    """Tokens, their text positions less that of the root, and who sees whom (None: a chain)."""

    token_ids: Tensor  # [N] int64
    offsets: Tensor  # [N] int64
    mask: Tensor | None  # [N, N] bool


def tree_inputs(root: Tensor, proposal: Proposal) -> TreeInputs:
    """`root` is the last committed token, [1] int64."""
    tree, queries = proposal.topology, proposal.queries
    token_ids = torch.cat([root, proposal.token_ids])
    if queries is None:
        return TreeInputs(token_ids, tree.offsets, None if tree.is_chain else tree.mask)
    mask = F.pad(tree.mask, (0, len(queries.token_ids)))  # no node sees a query
    return TreeInputs(
        torch.cat([token_ids, queries.token_ids]),
        torch.cat([tree.offsets, queries.offsets]),
        torch.cat([mask, queries.mask]),
    )
