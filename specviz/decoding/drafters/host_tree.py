"""A draft tree whose tokens the host chose, such as copies of text that it has seen.

Knows nothing of why they were chosen. The proposal is DETERMINISTIC: nothing was drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from specviz.decoding.drafters.base import ExtraQueries, Proposal
from specviz.decoding.topology import topology
from specviz.records import Note, ProposalKind


def host_chain(
    token_ids: Sequence[int], device: torch.device, notes: tuple[Note, ...] = ()
) -> Proposal:
    """The tokens one behind the other; none of them is a valid chain, too."""
    return host_tree(token_ids, tuple(range(-1, len(token_ids) - 1)), device, notes)


def host_tree(
    token_ids: Sequence[int],
    parents: tuple[int, ...],
    device: torch.device,
    notes: tuple[Note, ...] = (),
    queries: ExtraQueries | None = None,
) -> Proposal:
    """The tokens as a tree, given by each one's parent (-1 = root); the copy does not block."""
    return Proposal(
        ProposalKind.DETERMINISTIC,
        topology(parents, device),
        torch.tensor(token_ids, dtype=torch.int64).to(device, non_blocking=True),
        queries=queries,
        notes=notes,
    )


def merged(chains: Sequence[Sequence[int]]) -> tuple[list[int], tuple[int, ...]]:
    """Chains with common beginnings as one tree: its tokens, and each one's parent (-1 = root).

    >>> merged([(5, 6), (5, 7), (8,)])
    ([5, 6, 7, 8], (-1, 0, 0, -1))
    """
    token_ids: list[int] = []
    parents: list[int] = []
    nodes: dict[tuple[int, int], int] = {}  # parent, token -> node
    for chain in chains:
        node = -1
        for token_id in chain:
            key = (node, token_id)
            if key not in nodes:
                nodes[key] = len(token_ids)
                token_ids.append(token_id)
                parents.append(node)
            node = nodes[key]
    return token_ids, tuple(parents)
