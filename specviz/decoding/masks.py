"""The grammar's part in a round: which tokens the target may write, and forced tokens as a draft.

The mask of a grammar is part of the target: its logits are masked before anything else reads them.
So every lane and every rule sees the same p. A tree needs a mask for the token after each of its
nodes. The q of a draft is not masked: a forbidden token has p = 0, and verification rejects it.

In shapes, N is the number of nodes, R = N + 1 the number of rows (the root, then the nodes), Q the
number of extra queries and V the size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.decoding.drafters.base import (
    ExtraQueries,
    HostTransfer,
    Proposal,
    empty_proposal,
    host_chain,
)
from specviz.decoding.row import Row
from specviz.models.accelerator import upload
from specviz.records import ForcedTokens


def next_masks(rows: Sequence[Row], device: torch.device) -> list[Tensor] | None:
    """Return which tokens the grammar allows after the text of each row, [1, V] per row.

    The result is None without a grammar.
    """
    return tree_masks(rows, [empty_proposal(device)] * len(rows), HostTransfer())


def tree_masks(
    rows: Sequence[Row], proposals: Sequence[Proposal], transfer: HostTransfer
) -> list[Tensor] | None:
    """Return which tokens the grammar allows after the root and each node, [R, V] per row.

    The result is None without a grammar. Otherwise the host must know the tokens of the trees, so
    the call makes one blocking copy if any tree has nodes.
    """
    if rows[0].grammar is None:
        return None
    trees = _host_trees(proposals, transfer)
    masks = []
    for row, proposal, (token_ids, parents) in zip(rows, proposals, trees, strict=True):
        assert row.grammar is not None
        allowed = row.grammar.allowed(token_ids, parents)
        masks.append(upload(allowed, proposal.token_ids.device))
    return masks


def _host_trees(
    proposals: Sequence[Proposal], transfer: HostTransfer
) -> list[tuple[list[int], list[int]]]:
    """Return the tokens and the parents of the nodes of each tree."""
    parts = [
        part
        for each in proposals
        if each.topology.size
        for part in (each.token_ids, each.topology.parents)
    ]
    values = list(map(int, transfer.to_host(torch.cat(parts)))) if parts else []
    trees, start = [], 0
    for each in proposals:
        middle, end = start + each.topology.size, start + 2 * each.topology.size
        trees.append((values[start:middle], values[middle:end]))
        start = end
    return trees


def with_forced(proposal: Proposal, forced: Sequence[int]) -> Proposal:
    """Return a proposal whose draft is a chain of forced tokens.

    `proposal` is what the drafter returned when it could draft nothing. Its notes and its extra
    queries stay. The nodes of the chain have the origin -1, because the drafter has not numbered
    them.
    """
    if not forced:
        return proposal
    device, count = proposal.token_ids.device, len(forced)
    chain = host_chain(forced, device, (*proposal.notes, ForcedTokens(count)))
    origins = torch.full((count,), -1, device=device)
    return replace(chain, origins=origins, queries=_behind(proposal.queries, count))


def _behind(queries: ExtraQueries | None, count: int) -> ExtraQueries | None:
    """Add `count` nodes to the attention mask of extra queries, which do not see these nodes."""
    if queries is None:
        return None
    hidden = F.pad(queries.mask[:, :1], (0, count))
    mask = torch.cat([hidden, queries.mask[:, 1:]], 1)
    return ExtraQueries(queries.token_ids, queries.offsets, mask)
