"""Medusa: small heads on the target's last hidden state guess several positions at once.

Source: Cai et al., arXiv 2401.10774. Head d predicts the token d positions after the root, without
knowing the tokens in between. A node with depth d and rank r is the r-th choice of head d. The tree
consists of the nodes that were most often right in measurements. The lossy rule of that paper is
`decoding.rules.typical`.

In shapes, H is the number of heads in use, N the number of nodes, E the number of rows up to the
last row with children, K the number of choices of a head, W the target's hidden size and R the size
of the draft vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.decoding.drafters.base import (
    NOTHING_OVERLAPPED,
    Drafter,
    HeldMemory,
    Observation,
    OverlappedWork,
    PrefilledPrompt,
    Proposal,
    QuietDrafter,
    empty_proposal,
)
from specviz.decoding.drafters.method import Method, Setup
from specviz.decoding.drafters.tree_budget import (
    NODES,
    RankedNode,
    Rates,
    best_node_count,
    by_depth,
    ranked_nodes,
)
from specviz.decoding.topology import Topology, topology
from specviz.models.heads.medusa_heads import MedusaHeads
from specviz.models.parts import Need
from specviz.records import MAX_TREE_NODES


@dataclass(frozen=True, slots=True, eq=False)
class MedusaTree:
    """A static tree: for each node, the head that proposes its token and the rank of the token."""

    topology: Topology
    heads: Tensor  # [N] int64, head numbers from 0
    ranks: Tensor  # [N] int64
    row_heads: Tensor  # [E] int64, the head that proposes the children of each row


def medusa_tree(nodes: Sequence[RankedNode], heads: int, device: torch.device) -> MedusaTree:
    """Create the tree that consists of `nodes`, which must be sorted by level."""
    tree = topology(tuple(node.parent for node in nodes), device)
    depths = [0, *(node.depth for node in nodes)]
    # A leaf has no children, so any head number is valid for it.
    below = [min(depth, heads - 1) for depth in depths[: tree.expanded]]
    return MedusaTree(
        tree,
        torch.tensor([node.depth - 1 for node in nodes], dtype=torch.int64).to(device),
        torch.tensor([node.rank for node in nodes], dtype=torch.int64).to(device),
        torch.tensor(below).to(device),
    )


class MedusaDrafter(QuietDrafter):
    """A drafter that fills a static tree with the choices of the Medusa heads."""

    def __init__(
        self,
        heads: MedusaHeads,
        nodes: Sequence[RankedNode],
        device: torch.device,
    ) -> None:
        self.feature_layers = heads.feature_layers
        self._heads = heads
        self._width = 1 + max(node.rank for node in nodes)
        self._depth = max(node.depth for node in nodes)
        cuts = [[node for node in nodes if node.depth <= room] for room in range(self._depth + 1)]
        # One tree for each limit on the depth of the tree: 0 levels, 1 level, and so on.
        self._trees = [medusa_tree(cut, self._depth, device) for cut in cuts]
        # [W], hidden state of the token before the root, the input of the heads
        self._feature = torch.empty(0)

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory(self._heads.bytes)

    def start(self, prompt: PrefilledPrompt) -> None:
        assert prompt.features is not None
        self._feature = prompt.features[-1]

    def propose(self, committed: Sequence[int], room: int, round_index: int) -> Proposal:
        tree = self._trees[min(room, self._depth)]
        if tree.topology.size == 0:
            return empty_proposal(self._feature.device)
        logits = self._heads.logits(self._feature, self._depth)  # [H, R]
        choices = logits.topk(self._width, dim=-1).indices[tree.heads, tree.ranks]  # [N]
        distributions = logits.float().softmax(-1)[tree.row_heads]
        if (drafted := self._heads.drafted) is not None:
            choices = drafted.ids[choices]
            distributions = drafted.spread_distributions(distributions)
        return Proposal(
            tree.topology,
            choices,
            raw_distributions=distributions,
            is_whole=room >= self._depth,
        )

    def observe(self, observation: Observation) -> OverlappedWork:
        """Keep the hidden state of the last accepted token.

        This state is the next input of the heads.
        """
        assert observation.features is not None
        self._feature = observation.features[observation.end_row]
        return NOTHING_OVERLAPPED


def head_rates(heads: MedusaHeads, depth: int, vocab_size: int) -> Rates:
    """Return how often each choice of the first `depth` heads was right, from 0 to 1.

    A head has at most as many choices as it can draft tokens.
    """
    most = vocab_size if heads.drafted is None else len(heads.drafted.ids)
    return tuple(tuple(shares[:most]) for shares in heads.accuracies[:depth])


def _make(setup: Setup) -> Drafter:
    heads, config = setup.parts.medusa, setup.config
    if heads is None:
        raise setup.lacks(Need.MEDUSA)
    rates = head_rates(heads, config.draft_length, setup.target.info.vocab_size)
    nodes = ranked_nodes(rates, MAX_TREE_NODES)
    budget = METHOD.completed(config)[NODES.name]
    count = budget or best_node_count(setup.target, [node.gain for node in nodes])
    return MedusaDrafter(heads, by_depth(nodes[:count]), setup.target.device)


METHOD = Method(
    "medusa",
    "Medusa heads",
    "Small heads on the target's last hidden state guess several positions ahead, all at once.",
    _make,
    frozenset({Need.MEDUSA}),
    options=(NODES,),
    depth_cap="at most one token per head: more than there are heads changes nothing",
)
