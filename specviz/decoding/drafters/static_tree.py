"""Static draft trees: a fixed number of children at every depth; a chain has one.

Letters: M parents of one level, W children each, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Proposal, empty_proposal
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.source import DraftSource, Level
from specviz.decoding.sampling import Sampler, draw, normalize, uniforms_on
from specviz.decoding.streams import Purpose, RandomStream
from specviz.decoding.topology import Topology, topology
from specviz.records import ProposalKind


@lru_cache(maxsize=256)
def static_parents(widths: tuple[int, ...]) -> tuple[int, ...]:
    """Parent of every node, level by level.

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


class StaticTree:
    """Grows `widths[d]` children under every node of depth d.

    The proposal's kind says how siblings are chosen. At temperature 0 drawn siblings would all be
    equal, so the best W of the raw distribution are taken: DETERMINISTIC.
    """

    def __init__(
        self, widths: tuple[int, ...], kind: ProposalKind, sampler: Sampler, draws: RandomStream
    ) -> None:
        self.widths = widths
        greedy_tree = sampler.temperature == 0 and max(widths) > 1
        self.kind = ProposalKind.DETERMINISTIC if greedy_tree else kind
        self.sampler = sampler
        self._draws = draws

    def grow(
        self, source: DraftSource, committed: Sequence[int], room: int, round_index: int
    ) -> Proposal:
        """A tree of at most `room` levels after the committed tokens."""
        widths = self.widths[:room]
        tree = topology(static_parents(widths), source.device)
        if not widths:
            return empty_proposal(source.device)
        logits = source.begin(committed)
        chosen: list[Tensor] = []
        distributions: list[Tensor] = []
        raw_distributions: list[Tensor] = []
        end = 0
        for depth, width in enumerate(widths, start=1):
            processed, raw = self.sampler.both(logits)
            distributions.append(processed)
            raw_distributions.append(raw)
            level = range(end, end + width * logits.shape[0])
            keys = self.keys(round_index, depth, len(level))
            chosen.append(self.children(distributions[-1], raw_distributions[-1], width, keys))
            end = level.stop
            if depth < len(widths):
                logits = source.extend(tree_level(tree, level, depth, chosen[-1]))
        deterministic = self.kind is ProposalKind.DETERMINISTIC
        return Proposal(
            self.kind,
            tree,
            torch.cat(chosen),
            None if deterministic else torch.cat(distributions),
            torch.cat(raw_distributions),
            partial=source.partial(),
        )

    def keys(self, round_index: int, depth: int, count: int) -> list[float]:
        """The draws of a level's `count` nodes."""
        return [self._draws.uniform(round_index, depth, index) for index in range(count)]

    def children(self, distributions: Tensor, raw: Tensor, width: int, keys: list[float]) -> Tensor:
        """`width` tokens for each of M distributions, parent by parent. [M, V] -> [M * W]"""
        if self.kind is ProposalKind.DETERMINISTIC:
            most = min(width, raw.shape[-1])  # a repeat of the last choice is surely rejected
            ranks = torch.arange(width, device=raw.device).clamp(max=most - 1)
            return raw.topk(most, dim=-1).indices[:, ranks].flatten()
        uniforms = uniforms_on(distributions.device, keys).reshape(-1, width)  # [M, W]
        if self.kind is ProposalKind.IID:
            spread = distributions.repeat_interleave(width, dim=0) if width > 1 else distributions
            return draw(spread, uniforms.flatten())
        return _without_replacement(distributions, uniforms).flatten()


def static_tree(setup: Setup) -> StaticTree:
    """The tree of the run's setting: its branching, its kind, its draws."""
    config = setup.config
    draws = RandomStream(config.seed, Purpose.DRAFT)
    return StaticTree(config.widths, config.tree_kind, setup.sampler, draws)


def tree_level(tree: Topology, nodes: range, depth: int, token_ids: Tensor) -> Level:
    """The level to be run; all nodes run in the tree's order, so its numbers are the source's."""
    mask = (
        None if tree.is_chain else tree.mask[nodes.start + 1 : nodes.stop + 1, 1 : nodes.stop + 1]
    )
    return Level(token_ids, tree.parents[nodes.start : nodes.stop], depth, mask)


def _without_replacement(distributions: Tensor, uniforms: Tensor) -> Tensor:
    """Draw W tokens from each distribution, each leaving it. [M, V] x [M, W] -> [M, W]

    If the support is smaller than W, the last token is repeated: its q is 0 by then, so that
    verification surely rejects the repeat.
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
