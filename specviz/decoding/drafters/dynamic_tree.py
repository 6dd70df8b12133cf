"""Dynamic draft trees: they grow where the draft is confident (EAGLE-2, arXiv 2406.16858).

The score of a node is the probability of its whole path under the draft's distributions. At every
level, the k nodes with the best scores get k children each. The target verifies the N best of all
scored nodes. The drafter makes no random draws, so the tokens are CHOSEN at every
temperature. All these decisions are made on the device, without waiting for the host.

To *expand* a node is to run it through the draft model and to score its k best children. In shapes,
k is the number of nodes expanded per level, M the number of rows expanded last (1 for the root,
otherwise k), N the number of chosen nodes, X the number of expanded rows (the root, then nodes) and
R the number of tokens that can be drafted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Drafter, HostTransfer, Proposal, empty_proposal
from specviz.decoding.drafters.draft_model import draft_source
from specviz.decoding.drafters.method import Method, Option, Setup
from specviz.decoding.drafters.source import DraftShape, DraftSource, Extend, Level, SourceDrafter
from specviz.decoding.drafters.static_tree import static_tree
from specviz.decoding.drafters.tree_budget import NODES, Rates, best_node_count, ranked_nodes
from specviz.decoding.forward_times import forward_curve
from specviz.decoding.topology import device_layout, device_topology
from specviz.models.language_model import LanguageModel
from specviz.models.parts import Need
from specviz.records import MAX_TREE_NODES, TreeBudget

# smallest log-probability that a token can have, so that sums of log-probabilities stay finite
LOWEST = -100.0
# The number that is subtracted from a node's score at every level. Every child then has a lower
# score than its parent, even if its probability is 1, so no child is chosen without its parent.
STEP = 1e-4

LEVEL_WIDTH = Option(
    "level_width",
    "Nodes expanded per level",
    4,
    1,
    8,
    "how many of the best nodes are expanded at every depth",
)
# The lowest temperature at which `Agreement.rates` returns `sampled`. Below it, the result is
# `greedy`.
WARM = 0.4
# A dynamic tree gets as many nodes as possible. The extra nodes may lower its expected speed below
# the best speed by at most this fraction.
SLACK = 0.01


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often a draft predicts the target's next token, measured on text that the target wrote.

    `greedy` was measured at temperature 0, `sampled` at temperature 0.8. Their first entry says how
    often the draft's most probable token was the target's next token, the second entry says this of
    the draft's second choice, and so on. `sharpest` is the temperature at which the draft's
    distribution best predicts a target at temperature 0. It is below 1, because such a target
    always takes its most probable token, and the draft has learnt to be less certain.
    """

    greedy: tuple[float, ...]
    sampled: tuple[float, ...]
    sharpest: float

    def rates(self, temperature: float, width: int, depth: int) -> Rates:
        """Return how often each of the draft's first `width` choices is right.

        The result has one entry per depth, and these entries are equal.
        """
        return ((self.greedy if temperature < WARM else self.sampled)[:width],) * depth


@dataclass(frozen=True, slots=True, eq=False)
class LevelCost:
    """The time of one level of drafting: `share` times the time of one forward of `model`."""

    model: LanguageModel
    share: float = 1.0

    def seconds(self, width: int) -> float:
        """Return the seconds of a level with `width` nodes. The first call measures the model."""
        return self.share * forward_curve(self.model).at(width)


# How often the bundled draft model predicts the target's next token. Each rate is the mean over the
# five tasks for which the models were trained.
DRAFT_AGREEMENT = Agreement(
    (0.834, 0.092, 0.021, 0.011, 0.007, 0.005, 0.002, 0.006),
    (0.510, 0.119, 0.051, 0.036, 0.028, 0.021, 0.015, 0.014),
    0.45,
)


@dataclass(frozen=True, slots=True)
class DynamicLevels:
    """The tensor work that grows a dynamic tree: `depth` levels, `width` expanded nodes in each.

    A call returns four things: the tokens of the best `nodes` nodes [N]; the raw distributions
    after the root and after each of them [N + 1, R]; the index of each of them among the nodes that
    the draft ran, or -1 if the draft did not run it [N]; and the tensors of their `Topology`.
    Scores use the draft's distributions at `temperature`.
    """

    depth: int
    width: int
    nodes: int
    temperature: float

    @property
    def distribution_count(self) -> int:
        return 1

    @property
    def run_count(self) -> int:
        return (self.depth - 1) * self.width

    def __call__(self, logits: Tensor, extend: Extend, draws: Tensor) -> tuple[Tensor, ...]:
        width = min(self.width, logits.shape[-1])
        candidates = _Candidates(self.depth, width, self.temperature, logits.device)
        candidates.add(logits)
        for depth in range(2, self.depth + 1):
            candidates.add(extend(candidates.expanded(depth - 1)))
        return candidates.best(min(self.nodes, candidate_count(self.depth, width)), self.depth)


class DynamicTree:
    """A shape of draft trees: it grows `depth` levels from `width` nodes each and keeps `nodes`.

    The nodes with the best scores are kept. They are never deeper than level `nodes`, because every
    node has a lower score than its parent, so no more levels are grown. Scores use the draft's
    distributions at `temperature`, which must be above 0.
    """

    def __init__(self, depth: int, width: int, nodes: int, temperature: float) -> None:
        self.levels = DynamicLevels(min(depth, nodes), width, nodes, temperature)

    def start(self, transfer: HostTransfer) -> None:
        """Do nothing: the host reads nothing while this tree grows."""

    def grow(
        self, source: DraftSource, committed: Sequence[int], room: int, round_index: int
    ) -> Proposal:
        """Return a tree of the N scored nodes with the highest scores.

        The depth of the tree is at most min(depth, room).
        """
        levels = replace(self.levels, depth=min(self.levels.depth, room))
        if levels.depth == 0:
            return empty_proposal(source.device)
        is_whole = levels == self.levels
        token_ids, raw_distributions, origins, *tables = source.grown(
            levels, committed, (), is_whole
        )
        drafted = source.drafted
        most = raw_distributions.shape[-1] if drafted is None else len(drafted.ids)
        nodes, width = len(token_ids), min(levels.width, most)
        return Proposal(
            device_layout(nodes, levels.depth, width).topology(tables),
            token_ids,
            raw_distributions=raw_distributions,
            origins=origins,
            notes=(TreeBudget(nodes, candidate_count(levels.depth, width)),),
            is_whole=is_whole,
        )


def candidate_count(depth: int, width: int) -> int:
    """Return how many nodes get a score: the children of the root and of every expanded node."""
    return (1 + (depth - 1) * width) * width


class _Candidates:
    """All scored nodes, in the order in which they were added: parents before children.

    A candidate is a scored node, and a row is the root or a node that the draft ran. Both are
    numbered from 0 in the order of addition, and the root is row 0. Each row has k candidates as
    its children: candidates k r to k r + k - 1 are the children of row r.
    """

    def __init__(self, depth: int, width: int, temperature: float, device: torch.device) -> None:
        self._width = width
        self._temperature = temperature
        self._logits: list[Tensor] = []  # [1 or k, R] per level, the logits after the expanded rows
        self._token_ids: list[Tensor] = []
        self._scores: list[Tensor] = []
        # The scores of the rows (root or nodes) that were expanded last.
        self._level_scores = torch.zeros(1, device=device)
        # row -> number of the same node as a candidate; -1 for the root, which is no candidate
        self._rows = [torch.full((1,), -1, device=device)]
        self._ran = 1  # number of expanded rows, the root included
        # A square mask that is True where a row sees another row: its ancestors and itself. The
        # last column is for candidates that were not expanded.
        size = 2 + (depth - 1) * width
        self._seen = torch.eye(size, dtype=torch.bool, device=device)
        self._seen[:, 0] = True
        self._seen[:, -1] = False

    def add(self, logits: Tensor) -> None:
        """Add the k best children of each row that was expanded last. `logits` is [1 or k, R]."""
        logits = logits.float()
        best = logits.topk(self._width, dim=-1)  # [M, k]
        sharp = (logits / self._temperature).softmax(-1).gather(1, best.indices)
        gained = sharp.log_().clamp_(min=LOWEST).sub_(STEP)
        self._logits.append(logits)
        self._token_ids.append(best.indices.flatten())
        self._scores.append(gained.add_(self._level_scores[:, None]).flatten())

    def expanded(self, depth: int) -> Level:
        """Choose the k best of the newest candidates, which are at `depth`.

        Return them as a level.
        """
        k, ran = self._width, self._ran
        self._level_scores, chosen = self._scores[-1].topk(k)
        start = ran * k - len(self._scores[-1])  # index of the first candidate of the newest level
        candidates = chosen + start
        parent_rows = candidates.div(k, rounding_mode="floor")
        self._rows.append(candidates)
        self._ran += k
        self._seen[ran : self._ran, :ran] = self._seen[parent_rows, :ran]
        mask = self._seen[ran : self._ran, 1 : self._ran]
        return Level(self._token_ids[-1][chosen], parent_rows - 1, depth, mask)

    def best(self, nodes: int, depth: int) -> tuple[Tensor, ...]:
        """Return the tree of the `nodes` best candidates as the tensors of `DynamicLevels`."""
        chosen = torch.cat(self._scores).topk(nodes).indices.sort().values  # [N]
        rows = torch.cat(self._rows)  # [X]
        parent_rows = chosen.div(self._width, rounding_mode="floor")
        # `places` maps a candidate to its index in the chosen tree. Its last entry is for the root,
        # whose number as a candidate is -1.
        count = self._ran * self._width
        places = torch.full((count + 1,), -1, device=chosen.device)
        places[chosen] = torch.arange(nodes, device=chosen.device)
        own_rows = torch.full_like(places, -1)
        own_rows[rows] = torch.arange(len(rows), device=rows.device)
        own_rows = own_rows[chosen]
        mask = self._mask(parent_rows, own_rows)
        tree = device_topology(places[rows[parent_rows]], depth, self._width, mask)
        return (
            torch.cat(self._token_ids)[chosen],
            self._distributions_below(own_rows),
            (own_rows - 1).clamp_(min=-1),
            *tree.tensors,
        )

    def _mask(self, parent_rows: Tensor, own_rows: Tensor) -> Tensor:
        """Return the attention mask: a node sees itself and everything its parent sees.

        The result has shape [N + 1, N + 1].
        """
        above = torch.nn.functional.pad(parent_rows, (1, 0))
        # A node that was not expanded has the row index -1. This index selects the last column of
        # `_seen`, which no row sees.
        columns = torch.nn.functional.pad(own_rows, (1, 0))
        mask = self._seen[above[:, None], columns]
        mask.fill_diagonal_(True)
        return mask

    def _distributions_below(self, own_rows: Tensor) -> Tensor:
        """Return the raw distribution after the root and after each node.

        It is unknown after nodes that were not expanded; their rows contain zeros.
        """
        distributions = torch.cat([*self._logits, self._logits[0]]).softmax(-1)  # [X + 1, R]
        distributions[-1] = 0
        return distributions[torch.nn.functional.pad(own_rows, (1, 0))]  # [N + 1, R]


def dynamic_tree(
    setup: Setup, values: dict[str, int], agreement: Agreement, cost: LevelCost
) -> DynamicTree:
    """Return the dynamic tree for the run's settings.

    With a node budget of 0, measured forward times and the rates in `agreement` decide the number
    of nodes. The rates are averages over all positions. At a position where the draft is confident,
    a larger tree is better, so SLACK allows a few more nodes.
    """
    config = setup.config
    depth, width, temperature = config.draft_length, values[LEVEL_WIDTH.name], config.temperature
    count = values[NODES.name]
    if count == 0:
        nodes = ranked_nodes(agreement.rates(temperature, width, depth), MAX_TREE_NODES)
        gains, level_seconds = [node.gain for node in nodes], cost.seconds(width)
        count = best_node_count(
            setup.target, gains, lambda count: min(depth, count) * level_seconds, SLACK
        )
    return DynamicTree(depth, width, count, max(temperature, agreement.sharpest))


def any_tree(
    setup: Setup, values: dict[str, int], agreement: Agreement, cost: LevelCost
) -> DraftShape:
    """Return a dynamic tree, or a static tree if the settings require one.

    A static tree is required if the user sets the branching, or if siblings are drawn at random.
    """
    if not setup.config.drawing.is_drawn and not setup.config.branching:
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
    _make,
    frozenset({Need.DRAFT}),
    options=(LEVEL_WIDTH, NODES),
)
