"""Static draft trees of all rows of a batch: one forward of the draft model per level.

Every row draws what its own `StaticTree` would draw; a row with less room stops growing earlier.
Letters: B rows, A of them that still grow, M parents of a level in one row, C their children, E
parents in a whole tree, N its nodes, S nodes run so far with these, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from specviz.decoding.drafters.base import (
    NOTHING_OVERLAPPED,
    HeldMemory,
    Observation,
    OverlappedWork,
    PrefilledPrompt,
    Proposal,
    empty_proposal,
)
from specviz.decoding.drafters.method import Setup
from specviz.decoding.drafters.source import fitted, shared_layers
from specviz.decoding.drafters.static_tree import (
    StaticTree,
    static_parents,
    static_tree,
    tree_level,
)
from specviz.decoding.topology import topology
from specviz.models.language_model import BatchedModel, LanguageModel
from specviz.models.library_model import as_batched
from specviz.records import ProposalKind


class RowsSource(Protocol):
    """What `DraftSource` is for one row. Lists run parallel to the rows that have not ended."""

    @property
    def device(self) -> torch.device: ...

    @property
    def memory(self) -> HeldMemory: ...

    def start(self, prompts: Sequence[PrefilledPrompt]) -> None: ...

    def begin(self, rows: Sequence[int], committed: Sequence[Sequence[int]]) -> Tensor:
        """Logits after the last committed token of some rows (ascending). -> [A, 1, V]

        `committed` is that of all rows.
        """
        ...

    def extend(
        self, rows: Sequence[int], token_ids: Tensor, depth: int, mask: Tensor | None
    ) -> Tensor:
        """Logits after each node of a level of some rows. [A, M] -> [A, M, V]

        `mask` [M, S] says who sees whom, the same in all rows; None for a chain.
        """
        ...

    def keep(self, observations: Sequence[Observation]) -> None:
        """Keep the accepted nodes only; their origins are the order in which they ran."""
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Only these rows go on."""
        ...


class StaticRows:
    """The drafter of all rows: a draft model, and the tree that each row grows."""

    feature_layers: tuple[int, ...] = ()

    def __init__(self, source: RowsSource, trees: Sequence[StaticTree]) -> None:
        self._source = source
        self._trees = list(trees)

    @property
    def memory(self) -> HeldMemory:
        return self._source.memory

    def start(self, prompts: Sequence[PrefilledPrompt]) -> None:
        self._source.start(prompts)

    def propose(
        self, committed: Sequence[Sequence[int]], rooms: Sequence[int], round_index: int
    ) -> list[Proposal]:
        heights = [min(room, len(self._trees[0].widths)) for room in rooms]
        if not any(heights):
            return [empty_proposal(self._source.device) for _ in rooms]
        levels = _RowLevels(self._source.device, len(heights))
        growing = [row for row, height in enumerate(heights) if height]
        logits = self._source.begin(growing, committed)
        for depth in range(1, max(heights) + 1):
            token_ids = self._add(levels, growing, logits, round_index, depth)
            deeper = [place for place, row in enumerate(growing) if heights[row] > depth]
            if deeper:
                chosen = token_ids if len(deeper) == len(growing) else token_ids[deeper]
                growing = [growing[place] for place in deeper]
                logits = self._source.extend(growing, chosen, depth, self._mask(depth, chosen))
        return [self._proposal(levels, row, height) for row, height in enumerate(heights)]

    def _add(
        self, levels: _RowLevels, rows: Sequence[int], logits: Tensor, round_index: int, depth: int
    ) -> Tensor:
        """Choose a level's nodes. logits [A, M, V] -> [A, C]"""
        tree = self._trees[0]
        width, flat = tree.widths[depth - 1], logits.flatten(0, 1)
        count = width * logits.shape[1]
        distributions, raw = tree.sampler.both(flat)
        keys = [self._trees[row].keys(round_index, depth, count) for row in rows]
        token_ids = tree.children(distributions, raw, width, [key for row in keys for key in row])
        chosen = token_ids.view(len(rows), count)
        levels.add(rows, chosen, distributions.view(logits.shape), raw.view(logits.shape))
        return chosen

    def _mask(self, depth: int, token_ids: Tensor) -> Tensor | None:
        """Who sees whom in the level of this depth, the deepest so far."""
        parents = static_parents(self._trees[0].widths[:depth])
        nodes = range(len(parents) - token_ids.shape[1], len(parents))
        return tree_level(topology(parents, token_ids.device), nodes, depth, token_ids).mask

    def _proposal(self, levels: _RowLevels, row: int, height: int) -> Proposal:
        if height == 0:
            return empty_proposal(self._source.device)
        tree = self._trees[row]
        shape = topology(static_parents(tree.widths[:height]), self._source.device)
        token_ids, distributions, raw_distributions = levels.of(row, shape.size, shape.expanded)
        drawn = None if tree.kind is ProposalKind.DETERMINISTIC else distributions
        return Proposal(tree.kind, shape, token_ids, drawn, raw_distributions)

    def observe(self, observations: Sequence[Observation]) -> list[OverlappedWork]:
        self._source.keep(observations)
        return [NOTHING_OVERLAPPED] * len(observations)

    def select(self, rows: Sequence[int]) -> None:
        self._source.select(rows)
        self._trees = [self._trees[row] for row in rows]

    def close(self) -> None:
        """There is nothing to free."""


class _RowLevels:
    """The levels of all rows; zeros for rows that do not grow any more."""

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
        """A level of some rows: token_ids [A, C], distributions and raw distributions [A, M, V]."""
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
            self._joined = [torch.cat(parts, 1) for parts in zip(*self._levels, strict=True)]
        token_ids, distributions, raw_distributions = self._joined
        return (
            token_ids[row, :nodes],
            distributions[row, :parents],
            raw_distributions[row, :parents],
        )


class ModelRows:
    """Logits of a draft model, one forward a level for all rows.

    Each row of its cache covers a prefix of the committed tokens. `shared` as for `ModelSource`.
    """

    def __init__(
        self,
        model: BatchedModel,
        rows: int,
        capacity: int,
        vocab_size: int,
        shared: Sequence[int] = (),
    ) -> None:
        self._model = model
        self._shared = shared
        self._cache = model.new_ragged_cache(rows, capacity)
        self._vocab_size = vocab_size
        self._root_ends = [0] * rows  # slots that hold committed tokens
        self._ran = [0] * rows  # nodes of the present tree that are in the cache

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory(self._model.info.bytes, self._cache.bytes)

    @property
    def device(self) -> torch.device:
        return self._model.device

    def begin(self, rows: Sequence[int], committed: Sequence[Sequence[int]]) -> Tensor:
        """See `RowsSource.begin`."""
        lengths = self._cache.lengths
        missing: list[Sequence[int]] = [()] * len(lengths)
        for row in rows:
            missing[row] = committed[row][lengths[row] :]
            self._root_ends[row], self._ran[row] = len(committed[row]), 0
        return self._of(rows, self._forward(missing))

    def start(self, prompts: Sequence[PrefilledPrompt]) -> None:
        """Run the prompts of all rows, or begin with the target's own keys and values of them."""
        held = [prompt.keys_values() for prompt in prompts if prompt.keys_values is not None]
        if self._shared and held:
            self._cache.begin([shared_layers(each, self._shared) for each in held])
        else:
            self._forward([prompt.prompt_ids for prompt in prompts])

    def _forward(self, missing: Sequence[Sequence[int]]) -> Tensor:
        """Run what the cache lacks of each row, with logits after each row's last. -> [B, 1, V]"""
        lengths = self._cache.lengths
        starts = zip(lengths, missing, strict=True)
        places = [range(length, length + len(ids)) for length, ids in starts]
        longest = max(map(len, missing))
        token_ids, positions = self._on_device(
            [_padded(missing, longest), _padded(places, longest)]
        )
        counts = list(map(len, missing))
        return self._model.forward_rows(
            token_ids, counts, positions, self._cache, last_only=True
        ).logits

    def extend(
        self, rows: Sequence[int], token_ids: Tensor, depth: int, mask: Tensor | None
    ) -> Tensor:
        """See `RowsSource.extend`."""
        total, count = len(self._ran), token_ids.shape[1]
        counts, positions = [0] * total, [[0]] * total
        for row in rows:
            counts[row], positions[row] = count, [self._root_ends[row] - 1 + depth]
            self._ran[row] += count
        if len(rows) < total:
            chosen = self._on_device(rows)
            token_ids = token_ids.new_zeros(total, count).index_copy(0, chosen, token_ids)
        output = self._model.forward_rows(
            token_ids,
            counts,
            self._on_device(positions).expand(-1, count),
            self._cache,
            None if mask is None else mask.expand(total, -1, -1),
        )
        return self._of(rows, output.logits)

    def keep(self, observations: Sequence[Observation]) -> None:
        """See `RowsSource.keep`."""
        kept = [
            [end + origin for origin in observation.origins if 0 <= origin < ran]
            for end, ran, observation in zip(self._root_ends, self._ran, observations, strict=True)
        ]
        self._cache.keep(self._root_ends, kept)

    def select(self, rows: Sequence[int]) -> None:
        self._cache.select(rows)
        self._root_ends = [self._root_ends[row] for row in rows]
        self._ran = [self._ran[row] for row in rows]

    def _of(self, rows: Sequence[int], logits: Tensor) -> Tensor:
        chosen = logits if len(rows) == len(logits) else logits[self._on_device(rows)]
        return fitted(chosen, self._vocab_size)

    def _on_device(self, numbers: Sequence[object]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64).to(self.device, non_blocking=True)


def _padded(rows: Sequence[Sequence[int]], length: int) -> list[list[int]]:
    """Rows padded with zeros."""
    return [[*row, *[0] * (length - len(row))] for row in rows]


def static_rows(
    setups: Sequence[Setup], draft: LanguageModel, shared: Sequence[int] = ()
) -> StaticRows | None:
    """The drafter of all rows, each with its own seed; None if the draft model cannot run many.

    `shared` are the target's layers that the draft model is made of, if it is.
    """
    model = as_batched(draft)
    if model is None:
        return None
    capacity = max(setup.capacity for setup in setups)
    source = ModelRows(model, len(setups), capacity, setups[0].target.info.vocab_size, shared)
    return StaticRows(source, [static_tree(setup) for setup in setups])
