"""A proposal cut to its first nodes, for a budget that is known before anything is drawn.

How many stay must not depend on which tokens were drawn: then the cut tree is one that might have
been drawn as it is, and verification stays exact. Letters: N nodes, R = N + 1 rows (the root, then
nodes), E leading rows that may have children, Q extra queries, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.decoding.drafters.base import ExtraQueries, Partial, Proposal, empty_proposal
from specviz.decoding.topology import device_topology


def first_nodes(proposal: Proposal, count: int) -> Proposal:
    """At most `count` nodes; parents stand before their children, so what is left is a tree."""
    tree = proposal.topology
    if tree.size <= count:
        return proposal
    partial, queries = (
        _partial(proposal.partial, count),
        _queries(proposal.queries, tree.size, count),
    )
    if count == 0:
        empty = empty_proposal(proposal.token_ids.device, proposal.notes)
        return replace(empty, partial=partial, queries=queries)
    return replace(
        proposal,
        topology=device_topology(tree.parents[:count], tree.height, len(tree.siblings)),
        token_ids=proposal.token_ids[:count],
        distributions=_distributions(proposal.distributions, count),
        raw_distributions=_distributions(proposal.raw_distributions, count),
        origins=proposal.node_origins[:count],
        partial=partial,
        queries=queries,
    )


def _distributions(distributions: Tensor | None, count: int) -> Tensor | None:
    """One for every row that is left. [E, V] -> [count + 1, V]"""
    if distributions is None:
        return None
    return F.pad(distributions[: count + 1], (0, 0, 0, max(0, count + 1 - len(distributions))))


def _partial(partial: Partial | None, count: int) -> Partial | None:
    return partial and Partial(partial.layers, partial.hidden[: count + 1])


def _queries(queries: ExtraQueries | None, size: int, count: int) -> ExtraQueries | None:
    """No query loses more than the sight of a node that is gone."""
    if queries is None:
        return None
    mask = torch.cat([queries.mask[:, : count + 1], queries.mask[:, size + 1 :]], 1)
    return ExtraQueries(queries.token_ids, queries.offsets, mask)
