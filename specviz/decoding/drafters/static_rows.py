"""Static draft trees of all rows of a batch, grown level by level in one forward each.

Every row draws what its own `StaticTree` draws; one with less room stops growing earlier. Letters:
B rows, A of them that still grow, M parents of a level in one row, C their children, E parents in
a whole tree, N its nodes, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.decoding.drafters.base import (
    NOTHING_BESIDE,
    Beside,
    Observation,
    Opening,
    Proposal,
    empty_proposal,
)
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.model_rows import ModelRows
from specviz.decoding.drafters.static_tree import (
    StaticTree,
    static_parents,
    static_tree,
    tree_level,
)
from specviz.decoding.topology import topology
from specviz.models.language_model import LanguageModel
from specviz.models.library_model import as_batched
from specviz.records import ProposalKind


class StaticRows:
    """A draft model under all rows, and the tree that each of them grows."""

    needs_features = False

    def __init__(self, source: ModelRows, trees: Sequence[StaticTree]) -> None:
        self._source = source
        self._trees = list(trees)
        self.memory_bytes = source.memory_bytes

    def start(self, openings: Sequence[Opening]) -> None:
        """The prompts are run with the first roots."""

    def propose(
        self, committed: Sequence[Sequence[int]], rooms: Sequence[int], round_index: int
    ) -> list[Proposal]:
        heights = [min(room, len(self._trees[0].widths)) for room in rooms]
        if not any(heights):
            return [empty_proposal(self._source.device) for _ in rooms]
        grove = _Grove(self._source.device, len(heights))
        growing = [row for row, height in enumerate(heights) if height]
        logits = self._source.begin(growing, committed)
        for depth in range(1, max(heights) + 1):
            token_ids = self._add(grove, growing, logits, round_index, depth)
            deeper = [place for place, row in enumerate(growing) if heights[row] > depth]
            if deeper:
                chosen = token_ids if len(deeper) == len(growing) else token_ids[deeper]
                growing = [growing[place] for place in deeper]
                logits = self._source.extend(growing, chosen, depth, self._mask(depth, chosen))
        return [self._proposal(grove, row, height) for row, height in enumerate(heights)]

    def _add(
        self, grove: _Grove, rows: Sequence[int], logits: Tensor, round_index: int, depth: int
    ) -> Tensor:
        """Choose a level's nodes. logits [A, M, V] -> [A, C]"""
        tree = self._trees[0]
        width, flat = tree.widths[depth - 1], logits.flatten(0, 1)
        count = width * logits.shape[1]
        distributions, raw = tree.sampler.distributions(flat), flat.float().softmax(-1)
        keys = [self._trees[row].keys(round_index, depth, count) for row in rows]
        token_ids = tree.children(distributions, raw, width, [key for row in keys for key in row])
        chosen = token_ids.view(len(rows), count)
        grove.add(rows, chosen, distributions.view(logits.shape), raw.view(logits.shape))
        return chosen

    def _mask(self, depth: int, token_ids: Tensor) -> Tensor | None:
        """Who sees whom in the level of that depth, whose nodes are the last there are."""
        parents = static_parents(self._trees[0].widths[:depth])
        nodes = range(len(parents) - token_ids.shape[1], len(parents))
        return tree_level(topology(parents, token_ids.device), nodes, depth, token_ids).mask

    def _proposal(self, grove: _Grove, row: int, height: int) -> Proposal:
        if height == 0:
            return empty_proposal(self._source.device)
        tree = self._trees[row]
        shape = topology(static_parents(tree.widths[:height]), self._source.device)
        token_ids, distributions, raw_distributions = grove.of(row, shape.size, shape.expanded)
        drawn = None if tree.kind is ProposalKind.DETERMINISTIC else distributions
        return Proposal(tree.kind, shape, token_ids, drawn, raw_distributions)

    def observe(self, observations: Sequence[Observation]) -> list[Beside]:
        self._source.keep(observations)
        return [NOTHING_BESIDE] * len(observations)

    def select(self, rows: Sequence[int]) -> None:
        self._source.select(rows)
        self._trees = [self._trees[row] for row in rows]

    def close(self) -> None:
        """Nothing outlives the run."""


class _Grove:
    """Levels of all rows; where a row does not grow any more there are zeros."""

    def __init__(self, device: torch.device, rows: int) -> None:
        self._device = device
        self._rows = rows
        self._levels: list[list[Tensor]] = []
        self._joined: list[Tensor] = []

    def add(
        self,
        rows: Sequence[int],
        token_ids: Tensor,
        distributions: Tensor,
        raw_distributions: Tensor,
    ) -> None:
        """token_ids [A, C], distributions and raw distributions [A, M, V] of some rows."""
        level = [token_ids, distributions, raw_distributions]
        if len(rows) < self._rows:
            places = torch.tensor(rows).to(self._device, non_blocking=True)
            room = [each.new_zeros(self._rows, *each.shape[1:]) for each in level]
            pairs = zip(room, level, strict=True)
            level = [empty.index_copy(0, places, each) for empty, each in pairs]
        self._levels.append(level)

    def of(self, row: int, nodes: int, parents: int) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens [N], distributions and raw distributions [E, V] of one row."""
        if not self._joined:
            self._joined = [torch.cat(levels, 1) for levels in zip(*self._levels, strict=True)]
        token_ids, distributions, raw_distributions = self._joined
        return (
            token_ids[row, :nodes],
            distributions[row, :parents],
            raw_distributions[row, :parents],
        )


def static_rows(setups: Sequence[Setup], draft: LanguageModel) -> StaticRows | None:
    """The drafter of all rows, each with its own seed; None where the draft runs one row only."""
    model = as_batched(draft)
    if model is None:
        return None
    capacity = max(setup.capacity for setup in setups)
    source = ModelRows(model, len(setups), capacity, setups[0].target.info.vocab_size)
    return StaticRows(source, [static_tree(setup) for setup in setups])
