"""Static draft trees: every node at the same depth has the same number of children.

A chain is a tree with one child at every depth. In shapes, M is the number of parents of one level,
W the number of children of each parent, N the number of nodes, E the number of parents in the whole
tree (the root included) and R the number of tokens that can be drafted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from math import prod
from operator import mul

import torch
from torch import Tensor

from specviz.decoding.draft_lengths import EntropyStop
from specviz.decoding.drafters.base import HostTransfer, Proposal, empty_proposal
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.source import DraftSource, Extend, Level
from specviz.decoding.sampling import Sampler, draw, normalize
from specviz.decoding.streams import Purpose, RandomStream
from specviz.decoding.topology import Topology, topology
from specviz.records import Drawing


@lru_cache(maxsize=256)
def static_parents(widths: tuple[int, ...]) -> tuple[int, ...]:
    """Return the parent of every node, level by level. The root is -1.

    >>> static_parents((2, 1))
    (-1, -1, 0, 1)
    """
    parents: list[int] = []
    level = [-1]
    for width in widths:
        start = len(parents)
        parents.extend(parent for parent in level for _ in range(width))
        level = list(range(start, len(parents)))
    return tuple(parents)


@dataclass(frozen=True, slots=True)
class StaticLevels:
    """The tensor work that gives every node at depth d `widths[d]` children.

    `drawing` says how siblings are drawn. A call returns the tokens of all nodes [N]. It also
    returns the distributions of all parents [E, R], first with and then without the sampling
    settings. If `ends` is given, the tree is a chain. From the second token on, the host calls
    `ends` with each raw q [1, R] before a token is drawn from it, and the chain ends where the
    result is True.
    """

    tree: Topology
    widths: tuple[int, ...]
    drawing: Drawing
    sampler: Sampler
    ends: Callable[[Tensor], bool] | None = None

    @property
    def distribution_count(self) -> int:
        return 2

    @property
    def run_count(self) -> int:
        return self.tree.size - prod(self.widths)

    def __call__(self, logits: Tensor, extend: Extend, draws: Tensor) -> tuple[Tensor, ...]:
        chosen: list[Tensor] = []
        distributions: list[Tensor] = []
        raw_distributions: list[Tensor] = []
        end = 0
        for depth, width in enumerate(self.widths, start=1):
            processed, raw = self.sampler.both(logits)
            if self.ends is not None and depth > 1 and self.ends(raw):
                break
            distributions.append(processed)
            raw_distributions.append(raw)
            level = range(end, end + width * logits.shape[0])
            end = level.stop
            uniforms = draws[level.start : level.stop]
            chosen.append(children(self.drawing, processed, raw, width, uniforms))
            if depth < len(self.widths):
                logits = extend(tree_level(self.tree, level, depth, chosen[-1]))
        return torch.cat(chosen), torch.cat(distributions), torch.cat(raw_distributions)


class StaticTree:
    """A shape of draft trees: every node at depth d has `widths[d]` children.

    `drawing` says how siblings are drawn. At temperature 0, all siblings drawn from a distribution
    would be equal. The tree then takes the W most probable tokens instead, so its tokens count as
    CHOSEN. A `stop` can end a chain after its first token.
    """

    def __init__(
        self,
        widths: tuple[int, ...],
        drawing: Drawing,
        sampler: Sampler,
        draws: RandomStream,
        stop: EntropyStop | None = None,
    ) -> None:
        self.widths = widths
        self.stop = stop
        self._transfer: HostTransfer | None = None
        greedy_tree = sampler.temperature == 0 and max(widths) > 1
        self.drawing = Drawing.CHOSEN if greedy_tree else drawing
        self.sampler = sampler
        self._draws = draws

    def start(self, transfer: HostTransfer) -> None:
        self._transfer = transfer

    def _ends(self, raw: Tensor) -> bool:
        assert self._transfer is not None and self.stop is not None
        return bool(self._transfer.to_host(self.stop.stops(raw))[0])

    def grow(
        self, source: DraftSource, committed: Sequence[int], room: int, round_index: int
    ) -> Proposal:
        """Grow a tree of at most `room` levels after the committed tokens."""
        widths = self.widths[:room]
        if not widths:
            return empty_proposal(source.device)
        tree = topology(static_parents(widths), source.device)
        ends = None if self.stop is None else self._ends
        levels = StaticLevels(tree, widths, self.drawing, self.sampler, ends)
        is_whole = widths == self.widths
        # An entropy stop asks the host before each token, and a CUDA graph runs without the host.
        # With a stop, `is_whole` is therefore False for the source, so that it captures no graph.
        token_ids, distributions, raw_distributions = source.grown(
            levels, committed, self._keys_of_all(round_index, widths), is_whole and ends is None
        )
        if len(token_ids) < tree.size:
            is_whole, length = False, len(token_ids)
            tree = topology(static_parents(widths[:length]), source.device)
        return Proposal(
            tree,
            token_ids,
            distributions if self.drawing.is_drawn else None,
            raw_distributions,
            partial=source.partial(),
            is_whole=is_whole,
            drawing=self.drawing,
        )

    def _keys_of_all(self, round_index: int, widths: Sequence[int]) -> list[float]:
        levels = enumerate(accumulate(widths, mul), start=1)
        return [key for depth, count in levels for key in self.keys(round_index, depth, count)]

    def keys(self, round_index: int, depth: int, count: int) -> list[float]:
        """Return one uniform number per node of a level.

        The list is empty if the tokens of the tree are chosen without random draws.
        """
        if not self.drawing.is_drawn:
            return []
        return [self._draws.uniform(round_index, depth, index) for index in range(count)]


def children(
    drawing: Drawing, distributions: Tensor, raw: Tensor, width: int, uniforms: Tensor
) -> Tensor:
    """Choose `width` tokens from each of M distributions, parent by parent. [M, R] -> [M * W]

    If the tokens are chosen without random draws, `uniforms` [M * W] is not read.
    """
    if not drawing.is_drawn:
        # If the vocabulary has fewer tokens than the level has siblings, the last choice is
        # repeated. Verification always rejects a repeated token.
        most = min(width, raw.shape[-1])
        ranks = torch.arange(width, device=raw.device).clamp(max=most - 1)
        return raw.topk(most, dim=-1).indices[:, ranks].flatten()
    if drawing is Drawing.INDEPENDENT:
        spread = distributions.repeat_interleave(width, dim=0) if width > 1 else distributions
        return draw(spread, uniforms)
    return _without_replacement(distributions, uniforms.view(-1, width)).flatten()


def static_tree(setup: Setup) -> StaticTree:
    """Return the static tree that the settings of the run describe."""
    config = setup.config
    draws = RandomStream(config.seed, Purpose.DRAFT)
    return StaticTree(config.widths, config.drawing, setup.sampler, draws, setup.stop)


def tree_level(tree: Topology, nodes: range, depth: int, token_ids: Tensor) -> Level:
    """Return the nodes of one depth as a level that a source of logits can run.

    The source runs the nodes in the order of the tree, so it gives every node the node's own index
    in the tree.
    """
    mask = (
        None if tree.is_chain else tree.mask[nodes.start + 1 : nodes.stop + 1, 1 : nodes.stop + 1]
    )
    return Level(token_ids, tree.parents[nodes.start : nodes.stop], depth, mask)


def _without_replacement(distributions: Tensor, uniforms: Tensor) -> Tensor:
    """Draw W tokens from each distribution without replacement. [M, R] x [M, W] -> [M, W]

    If fewer than W tokens have a probability above 0, the last token is repeated. The q of the
    repeated token is then 0, so verification always rejects it.
    """
    left = distributions
    tokens: list[Tensor] = []
    for uniform in uniforms.unbind(1):
        token = draw(left, uniform)
        if tokens:
            token = torch.where(left.sum(-1) > 0, token, tokens[-1])
        tokens.append(token)
        left = normalize(left.scatter(1, token[:, None], 0.0))
    return torch.stack(tokens, 1)
