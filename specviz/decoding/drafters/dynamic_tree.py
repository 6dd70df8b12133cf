"""Dynamic draft trees: the source's confidence decides where they grow (EAGLE-2 2406.16858).

A node's score is the probability of its whole path under the source's distributions, at the run's
temperature. The best k nodes of every level are expanded into their best k children each; of all
nodes that were scored the best N are verified. Nothing is drawn, so the proposal is DETERMINISTIC
at every temperature. All is decided on the device, without waiting. Letters: k nodes expanded per
level, C candidates (all nodes that were scored), N of them chosen, X expanded rows (the root, then
nodes), V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Drafter, Proposal, empty_proposal
from specviz.decoding.drafters.draft_model import draft_source
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.decoding.drafters.source import DraftShape, DraftSource, Level, SourceDrafter
from specviz.decoding.drafters.static_tree import static_tree
from specviz.decoding.drafters.tree_budget import NODES, Rates, best_node_count, ranked_nodes
from specviz.decoding.forward_times import forward_curve
from specviz.decoding.topology import device_topology
from specviz.models.language_model import LanguageModel
from specviz.models.parts import Need
from specviz.records import MAX_TREE_NODES, ProposalKind, TreeBudget

LOWEST = -100.0  # log-probability of a token: keeps sums finite
STEP = 1e-4  # subtracted per level, so that no child ever ties with its parent

LEVEL_WIDTH = Option(
    "level_width", "Nodes expanded per level", 4, 1, 8, "the k of the best k, at every depth"
)
WARM = 0.4  # from this temperature on the sampled shares are used
SLACK = 0.01  # share of the expected speed that may be given up for more nodes


@dataclass(frozen=True, slots=True)
class Agreement:
    """How well a source predicts its target, measured on text that the target writes.

    `greedy` and `sampled` are how often the k-th choice is the target's next token, at temperature
    0 and 0.8. `sharpest` is the temperature of the source that best predicts a target at 0: a draft
    learns the target's distributions, but at 0 the target takes the likeliest token far more often.
    """

    greedy: tuple[float, ...]
    sampled: tuple[float, ...]
    sharpest: float

    def rates(self, temperature: float, width: int, depth: int) -> Rates:
        """How often the first `width` choices are right, the same at every depth."""
        return ((self.greedy if temperature < WARM else self.sampled)[:width],) * depth


@dataclass(frozen=True, slots=True, eq=False)
class LevelCost:
    """The source runs one level in this share of the time of a forward of `model`."""

    model: LanguageModel
    share: float = 1.0

    def seconds(self, width: int) -> float:
        """Of a level of `width` nodes; measured on first use."""
        return self.share * forward_curve(self.model).at(width)


# The bundled draft, mean over the five tasks.
DRAFT_AGREEMENT = Agreement(
    (0.834, 0.092, 0.021, 0.011, 0.007, 0.005, 0.002, 0.006),
    (0.510, 0.119, 0.051, 0.036, 0.028, 0.021, 0.015, 0.014),
    0.45,
)


class DynamicTree:
    """Grows `depth` levels, expands `width` nodes of each, and keeps the best `nodes`.

    Scores use the source's distributions at `temperature` (above 0).
    """

    def __init__(self, depth: int, width: int, nodes: int, temperature: float) -> None:
        self._depth = depth
        self._width = width
        self._nodes = nodes
        self._temperature = temperature

    def grow(
        self, source: DraftSource, committed: Sequence[int], room: int, round_index: int
    ) -> Proposal:
        """The best N of the candidates down to depth min(depth, room)."""
        depth = min(self._depth, room)
        if depth == 0:
            return empty_proposal(source.device)
        logits = source.begin(committed)
        width = min(self._width, logits.shape[-1])
        candidates = _Candidates(depth, width, self._temperature, source.device)
        candidates.add(logits)
        for level in range(2, depth + 1):
            candidates.add(source.extend(candidates.expanded(level - 1)))
        return candidates.proposal(min(self._nodes, candidates.count), depth)


class _Candidates:
    """All scored nodes in the order in which they were added, parents before children.

    The root is expanded row 0. Every row has k candidates: c is a child of row c // k.
    """

    def __init__(self, depth: int, width: int, temperature: float, device: torch.device) -> None:
        self._width = width
        self._temperature = temperature
        self._logits: list[Tensor] = []  # of the expanded rows, level by level, [1 or k, V]
        self._token_ids: list[Tensor] = []
        self._scores: list[Tensor] = []
        self._level_scores = torch.zeros(1, device=device)  # of the rows expanded last
        self._rows = [torch.full((1,), -1, device=device)]  # candidate of each expanded row
        self._ran = 1  # rows expanded so far, the root included
        # a row sees its ancestors and itself; the last column is for candidates without a row
        size = 2 + (depth - 1) * width
        self._seen = torch.eye(size, dtype=torch.bool, device=device)
        self._seen[:, 0] = True
        self._seen[:, -1] = False

    @property
    def count(self) -> int:
        return self._ran * self._width

    def add(self, logits: Tensor) -> None:
        """The best k children of every row expanded last. logits [1 or k, V]"""
        logits = logits.float()
        best = logits.topk(self._width, dim=-1)  # [M, k]
        sharp = (logits / self._temperature).softmax(-1).gather(1, best.indices)
        gained = sharp.log_().clamp_(min=LOWEST).sub_(STEP)
        self._logits.append(logits)
        self._token_ids.append(best.indices.flatten())
        self._scores.append(gained.add_(self._level_scores[:, None]).flatten())

    def expanded(self, depth: int) -> Level:
        """Choose the best k of the newest candidates, those at `depth`, to be run."""
        k, ran = self._width, self._ran
        self._level_scores, chosen = self._scores[-1].topk(k)
        start = ran * k - len(self._scores[-1])  # the first of the newest
        candidates = chosen + start
        parent_rows = candidates.div(k, rounding_mode="floor")
        self._rows.append(candidates)
        self._ran += k
        self._seen[ran : self._ran, :ran] = self._seen[parent_rows, :ran]
        mask = self._seen[ran : self._ran, 1 : self._ran]
        return Level(self._token_ids[-1][chosen], parent_rows - 1, depth, mask)

    def proposal(self, nodes: int, depth: int) -> Proposal:
        """The best `nodes` candidates as a tree."""
        chosen = torch.cat(self._scores).topk(nodes).indices.sort().values  # [N]
        rows = torch.cat(self._rows)  # [X]
        parent_rows = chosen.div(self._width, rounding_mode="floor")
        places = torch.full((self.count + 1,), -1, device=chosen.device)  # the last is the root's
        places[chosen] = torch.arange(nodes, device=chosen.device)
        own_rows = torch.full_like(places, -1)
        own_rows[rows] = torch.arange(len(rows), device=rows.device)
        own_rows = own_rows[chosen]
        mask = self._mask(parent_rows, own_rows)
        return Proposal(
            ProposalKind.DETERMINISTIC,
            device_topology(places[rows[parent_rows]], depth, self._width, mask),
            torch.cat(self._token_ids)[chosen],
            raw_distributions=self._distributions_below(own_rows),
            origins=(own_rows - 1).clamp_(min=-1),
            notes=(TreeBudget(nodes, self.count),),
        )

    def _mask(self, parent_rows: Tensor, own_rows: Tensor) -> Tensor:
        """Root and nodes see what their parent's row sees, and themselves. -> [N + 1, N + 1]"""
        above = torch.nn.functional.pad(parent_rows, (1, 0))
        columns = torch.nn.functional.pad(own_rows, (1, 0))  # -1: the last
        mask = self._seen[above[:, None], columns]
        mask.fill_diagonal_(True)
        return mask

    def _distributions_below(self, own_rows: Tensor) -> Tensor:
        """The raw distribution after the root and after every node; zeros if it was not run."""
        distributions = torch.cat([*self._logits, self._logits[0]]).softmax(-1)  # [X + 1, V]
        distributions[-1] = 0
        return distributions[torch.nn.functional.pad(own_rows, (1, 0))]  # [N + 1, V]


def dynamic_tree(
    setup: Setup, values: dict[str, int], agreement: Agreement, cost: LevelCost
) -> DynamicTree:
    """The shape of the run's setting; a budget of 0 is chosen from the measured forward curve.

    If the source is confident, its trees are worth more than `agreement` says on average: hence
    SLACK.
    """
    config = setup.config
    depth, width, temperature = config.draft_length, values[LEVEL_WIDTH.name], config.temperature
    count = values[NODES.name]
    if count == 0:
        nodes = ranked_nodes(agreement.rates(temperature, width, depth), MAX_TREE_NODES)
        gains = [node.gain for node in nodes]
        count = best_node_count(setup.target, gains, depth * cost.seconds(width), SLACK)
    return DynamicTree(depth, width, count, max(temperature, agreement.sharpest))


def any_tree(
    setup: Setup, values: dict[str, int], agreement: Agreement, cost: LevelCost
) -> DraftShape:
    """A dynamic tree, unless the setting has a branching or draws its siblings."""
    if setup.config.tree_kind is ProposalKind.DETERMINISTIC and not setup.config.branching:
        return dynamic_tree(setup, values, agreement, cost)
    return static_tree(setup)


def _make(setup: Setup) -> Drafter:
    values = METHOD.completed(setup.config)
    shape = dynamic_tree(setup, values, DRAFT_AGREEMENT, LevelCost(setup.draft))
    return SourceDrafter(draft_source(setup), shape)


METHOD = Method(
    "dynamic-tree",
    "Draft model, dynamic tree",
    "A small model branches where it is unsure; the most probable paths are verified.",
    (ProposalKind.DETERMINISTIC,),
    _make,
    frozenset({Need.DRAFT}),
    options=(LEVEL_WIDTH, NODES),
)
