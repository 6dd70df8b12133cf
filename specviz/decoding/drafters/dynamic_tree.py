"""Dynamic draft trees: the source's confidence decides where they grow (EAGLE-2 2406.16858).

A node's score is the probability of its whole path under the raw draft laws. Of every level the
best k nodes are expanded into their best k children each; of all that were scored the best N are
verified. Nothing is drawn, so the proposal is DETERMINISTIC at every temperature, and all is
decided on the device, unseen by the host. Letters: k nodes expanded per level, M nodes of one
level, C candidates, N nodes chosen, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Drafter, Proposal, empty_proposal
from specviz.decoding.drafters.draft_model import draft_source
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.decoding.drafters.ranked_tree import ranked_nodes
from specviz.decoding.drafters.source import Level, Source
from specviz.decoding.drafters.source_drafter import Shape, SourceDrafter
from specviz.decoding.drafters.static_tree import static_tree
from specviz.decoding.drafters.tree_budget import NODES, chosen_node_count
from specviz.decoding.topology import device_topology
from specviz.models.parts import Need
from specviz.records import MAX_TREE_NODES, ProposalKind, TreeBudget

LOWEST = -100.0  # of a token's log-probability: keeps sums finite
STEP = 1e-4  # subtracted per level, so that no child ever ties with its parent

LEVEL_WIDTH = Option(
    "level_width", "Nodes expanded per level", 4, 1, 8, "the k of the best k, at every depth"
)
# How often the bundled draft's k-th choice is the next token of its target, over all tasks.
RANK_ACCEPTANCE = (0.60, 0.14, 0.06, 0.04, 0.02, 0.02, 0.01, 0.01)


class DynamicTree:
    """Grows `depth` levels of which `width` nodes each are expanded, and keeps the best `nodes`."""

    def __init__(self, depth: int, width: int, nodes: int) -> None:
        self._depth = depth
        self._width = width
        self._nodes = nodes

    def grow(
        self, source: Source, committed: Sequence[int], room: int, round_index: int
    ) -> Proposal:
        """The best N of the candidates down to depth min(depth, room)."""
        depth = min(self._depth, room)
        if depth == 0:
            return empty_proposal(source.device)
        candidates = _Candidates(source.begin(committed), self._width)
        for level in range(2, depth + 1):
            candidates.add(source.extend(candidates.expanded(level - 1)))
        return candidates.proposal(min(self._nodes, candidates.count), depth)


class _Candidates:
    """All scored nodes in the order in which they were found, parents before children.

    The root counts as expanded row 0, the r-th expanded node as row r + 1.
    """

    def __init__(self, root_logits: Tensor, width: int) -> None:  # [1, V]
        self._width = min(width, root_logits.shape[-1])
        device = root_logits.device
        self._raw_laws: list[Tensor] = []
        self._token_ids: list[Tensor] = []
        self._scores: list[Tensor] = []
        self._parents: list[Tensor] = []  # candidate of each candidate's parent, -1 = root
        self._rows: list[Tensor] = []  # candidates that were expanded, level by level
        self._seen = torch.zeros(0, 0, dtype=torch.bool, device=device)  # [rows, rows], less root
        self._level_parents = torch.full((1,), -1, device=device)  # the last expanded candidates
        self._level_scores = torch.zeros(1, device=device)
        self._level_rows = torch.full((1,), -1, device=device)  # their numbers among the expanded
        self._child_rows = self._level_rows
        self.add(root_logits)

    @property
    def count(self) -> int:
        return sum(map(len, self._token_ids))

    def add(self, logits: Tensor) -> None:
        """The best k children of every node expanded last. logits [M, V]"""
        raw = logits.float().softmax(-1)
        best = raw.topk(self._width, dim=-1)  # [M, k]
        gained = best.values.log().clamp(min=LOWEST) - STEP
        self._raw_laws.append(raw)
        self._token_ids.append(best.indices.flatten())
        self._scores.append((self._level_scores[:, None] + gained).flatten())
        self._parents.append(self._level_parents.repeat_interleave(self._width))
        self._child_rows = self._level_rows.repeat_interleave(self._width)

    def expanded(self, depth: int) -> Level:
        """Choose the best k of the newest candidates, which stand at `depth`, to be run."""
        scores, chosen = self._scores[-1].topk(min(self._width, len(self._scores[-1])))
        before = self.count - len(self._scores[-1])
        ran, count = len(self._seen), len(chosen)
        parent_rows = self._child_rows[chosen]
        self._level_parents, self._level_scores = before + chosen, scores
        self._level_rows = torch.arange(ran, ran + count, device=scores.device)
        self._rows.append(self._level_parents)
        self._grow_mask(parent_rows, count)
        mask = self._seen[ran:]
        return Level(self._token_ids[-1][chosen], parent_rows, depth, mask)

    def _grow_mask(self, parent_rows: Tensor, count: int) -> None:
        """A new row sees what its parent sees, and itself."""
        ran = len(self._seen)
        above = torch.nn.functional.pad(self._seen, (0, 0, 1, 0))[parent_rows + 1]  # root: nothing
        itself = torch.eye(count, dtype=torch.bool, device=parent_rows.device)
        older = torch.nn.functional.pad(self._seen, (0, count))
        self._seen = torch.cat([older, torch.cat([above, itself], 1)])
        assert self._seen.shape == (ran + count, ran + count)

    def proposal(self, nodes: int, depth: int) -> Proposal:
        """The best `nodes` candidates as a tree."""
        parents = torch.cat(self._parents)  # [C]
        chosen = torch.cat(self._scores).topk(nodes).indices.sort().values  # [N]
        places = torch.full((self.count + 1,), -1, device=chosen.device)  # the last is the root's
        places[chosen] = torch.arange(nodes, device=chosen.device)
        origins = self._origins()[chosen]
        return Proposal(
            ProposalKind.DETERMINISTIC,
            device_topology(places[parents[chosen]], depth, self._width),
            torch.cat(self._token_ids)[chosen],
            raw_laws=self._laws_of(origins),
            origins=origins,
            notes=(TreeBudget(nodes, self.count),),
        )

    def _origins(self) -> Tensor:
        """Number of each candidate among the expanded ones, -1 where it was not. [C]"""
        origins = torch.full((self.count,), -1, device=self._scores[0].device)
        if self._rows:
            rows = torch.cat(self._rows)
            origins[rows] = torch.arange(len(rows), device=rows.device)
        return origins

    def _laws_of(self, origins: Tensor) -> Tensor:
        """The raw law below the root and below every node, zeros where none was asked for."""
        laws = torch.cat([*self._raw_laws, torch.zeros_like(self._raw_laws[0])])
        rows = torch.where(origins < 0, len(laws) - 1, origins + 1)
        return laws[torch.cat([rows.new_zeros(1), rows])]  # [N + 1, V]


def dynamic_tree(setup: Setup, values: dict[str, int]) -> DynamicTree:
    """The shape of the run's setting; a budget of 0 follows from the measured forward curve."""
    depth, width = setup.config.draft_length, values[LEVEL_WIDTH.name]
    gains = [node.gain for node in ranked_nodes((RANK_ACCEPTANCE[:width],) * depth, MAX_TREE_NODES)]
    return DynamicTree(depth, width, chosen_node_count(values[NODES.name], setup.target, gains))


def any_tree(setup: Setup, values: dict[str, int]) -> Shape:
    """A dynamic tree, unless a branching or a drawn kind asks for a static one."""
    is_free = setup.config.tree_kind is ProposalKind.DETERMINISTIC and not setup.config.branching
    return dynamic_tree(setup, values) if is_free else static_tree(setup)


def _make(setup: Setup) -> Drafter:
    values = METHOD.completed(setup.config)
    return SourceDrafter(draft_source(setup), dynamic_tree(setup, values))


METHOD = Method(
    "dynamic-tree",
    "Draft model, dynamic tree",
    "A small model branches where it is unsure; the most probable paths are verified.",
    (ProposalKind.DETERMINISTIC,),
    _make,
    frozenset({Need.DRAFT}),
    options=(LEVEL_WIDTH, NODES),
)
