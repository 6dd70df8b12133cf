"""Static draft trees for all rows of a batch, with one draft forward per level.

A row is one sequence of the batch. Every row draws the tokens that a `StaticTree` of this row alone
would draw. The tree of a row that is near its token limit stops growing earlier.

In shapes, B is the number of rows, A the number of rows that still grow, M the number of parents of
a level in one row, C the number of their children, E the number of parents in a whole tree, N the
number of its nodes, S the number of nodes of one row run so far, this level included, and V the
size of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from specviz.decoding.drafters.base import (
    NOTHING_OVERLAPPED,
    HeldMemory,
    HostTransfer,
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
    children,
    static_parents,
    static_tree,
    tree_level,
)
from specviz.decoding.sampling import uniforms_on
from specviz.decoding.topology import topology
from specviz.models.accelerator import upload
from specviz.models.language_model import BatchedModel, LanguageModel
from specviz.models.library_model import as_batched


class RowsSource(Protocol):
    """A source of logits like `DraftSource`, but for all rows (sequences) of a batch together.

    All lists have one entry per row that has not ended.
    """

    @property
    def device(self) -> torch.device: ...

    @property
    def memory(self) -> HeldMemory: ...

    def start(self, prompts: Sequence[PrefilledPrompt]) -> None: ...

    def begin(self, rows: Sequence[int], committed: Sequence[Sequence[int]]) -> Tensor:
        """Return the logits after the last committed token of these rows (ascending). -> [A, 1, V]

        `committed` has an entry for every row of the batch, not only for these rows.
        """
        ...

    def extend(
        self, rows: Sequence[int], token_ids: Tensor, depth: int, mask: Tensor | None
    ) -> Tensor:
        """Return the logits after each node of one level, for these rows. [A, M] -> [A, M, V]

        `mask` [M, S] is True where a node sees another node. All rows have the same mask;
        `mask` is None for a chain.
        """
        ...

    def keep(self, observations: Sequence[Observation]) -> None:
        """Keep only the accepted nodes in the cache.

        The source numbers the nodes in the order in which it runs them. This number is the node's
        origin.
        """
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Keep only the rows that have these indices in the batch, and drop all other rows."""
        ...


class StaticRows:
    """A drafter for all rows of a batch: one draft model, and a static tree for each row."""

    feature_layers: tuple[int, ...] = ()

    def __init__(self, source: RowsSource, trees: Sequence[StaticTree]) -> None:
        self._source = source
        self._trees = list(trees)
        self._transfer: HostTransfer | None = None

    @property
    def memory(self) -> HeldMemory:
        return self._source.memory

    def start(self, prompts: Sequence[PrefilledPrompt]) -> None:
        self._transfer = prompts[0].transfer
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
            if not deeper:
                break
            chosen = token_ids if len(deeper) == len(growing) else token_ids[deeper]
            growing = [growing[place] for place in deeper]
            logits = self._source.extend(growing, chosen, depth, self._mask(depth, chosen))
            ended = self._ended(logits)
            for place in ended:
                heights[growing[place]] = depth
            going = [place for place in range(len(growing)) if place not in ended]
            if not going:
                break
            if ended:
                growing, logits = [growing[place] for place in going], logits[going]
        return [self._proposal(levels, row, height) for row, height in enumerate(heights)]

    def _ended(self, logits: Tensor) -> list[int]:
        """Return the indices of the rows whose draft must end here: their q has too much entropy.

        `logits` [A, M, V] are those of the rows that still grow.
        """
        stop = self._trees[0].stop
        if stop is None:
            return []
        assert self._transfer is not None
        raw = logits.flatten(0, 1).float().softmax(-1)
        stops = self._transfer.to_host(stop.stops(raw))
        return [place for place, is_end in enumerate(stops) if is_end]

    def _add(
        self, levels: _RowLevels, rows: Sequence[int], logits: Tensor, round_index: int, depth: int
    ) -> Tensor:
        """Choose the tokens of one level for the rows `rows`, and add them to `levels`.

        Logits [A, M, V] -> token ids [A, C].
        """
        tree = self._trees[0]
        width, flat = tree.widths[depth - 1], logits.flatten(0, 1)
        count = width * logits.shape[1]
        distributions, raw = tree.sampler.both(flat)
        keys = [self._trees[row].keys(round_index, depth, count) for row in rows]
        uniforms = uniforms_on(flat.device, [key for row in keys for key in row])
        token_ids = children(tree.drawing, distributions, raw, width, uniforms)
        chosen = token_ids.view(len(rows), count)
        levels.add(rows, chosen, distributions.view(logits.shape), raw.view(logits.shape))
        return chosen

    def _mask(self, depth: int, token_ids: Tensor) -> Tensor | None:
        """Return the attention mask of the level at this depth.

        The mask covers only the nodes down to this depth, because no deeper level exists yet.
        """
        parents = static_parents(self._trees[0].widths[:depth])
        nodes = range(len(parents) - token_ids.shape[1], len(parents))
        return tree_level(topology(parents, token_ids.device), nodes, depth, token_ids).mask

    def _proposal(self, levels: _RowLevels, row: int, height: int) -> Proposal:
        if height == 0:
            return empty_proposal(self._source.device)
        tree = self._trees[row]
        shape = topology(static_parents(tree.widths[:height]), self._source.device)
        token_ids, distributions, raw_distributions = levels.of(row, shape.size, shape.expanded)
        q = distributions if tree.drawing.is_drawn else None
        return Proposal(shape, token_ids, q, raw_distributions, drawing=tree.drawing)

    def observe(self, observations: Sequence[Observation]) -> list[OverlappedWork]:
        self._source.keep(observations)
        return [NOTHING_OVERLAPPED] * len(observations)

    def select(self, rows: Sequence[int]) -> None:
        self._source.select(rows)
        self._trees = [self._trees[row] for row in rows]

    def close(self) -> None:
        """Do nothing: this drafter holds no resources."""


class _RowLevels:
    """The levels of the trees of all rows. A row whose tree has stopped growing has zeros."""

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
        """Add one level for some rows.

        `token_ids` has shape [A, C]. `distributions` and `raw_distributions` have shape [A, M, V].
        """
        level = [token_ids, distributions, raw_distributions]
        if len(rows) < self._rows:
            places = upload(torch.tensor(rows), self._device)
            room = [each.new_zeros(self._rows, *each.shape[1:]) for each in level]
            pairs = zip(room, level, strict=True)
            level = [empty.index_copy(0, places, each) for empty, each in pairs]
        self._levels.append(level)

    def of(self, row: int, nodes: int, parents: int) -> tuple[Tensor, Tensor, Tensor]:
        """Return one row's tree: tokens [N], distributions [E, V], raw distributions [E, V]."""
        if not self._joined:
            self._joined = [torch.cat(parts, 1) for parts in zip(*self._levels, strict=True)]
        token_ids, distributions, raw_distributions = self._joined
        return (
            token_ids[row, :nodes],
            distributions[row, :parents],
            raw_distributions[row, :parents],
        )


class ModelRows:
    """A source of logits that is a draft model, with one forward per level for all rows of a batch.

    The cache holds a prefix of the committed tokens of each row. If the draft is made of layers of
    the target, `shared` lists these layers.
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
        self._root_ends = [0] * rows  # number of cache slots with committed tokens, per row
        self._ran = [0] * rows  # number of cache slots with nodes of the current tree, per row

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory(self._model.info.bytes, self._cache.bytes)

    @property
    def device(self) -> torch.device:
        return self._model.device

    def begin(self, rows: Sequence[int], committed: Sequence[Sequence[int]]) -> Tensor:
        lengths = self._cache.lengths
        missing: list[Sequence[int]] = [()] * len(lengths)
        for row in rows:
            missing[row] = committed[row][lengths[row] :]
            self._root_ends[row], self._ran[row] = len(committed[row]), 0
        return self._of(rows, self._forward(missing))

    def start(self, prompts: Sequence[PrefilledPrompt]) -> None:
        """Run all prompts.

        If the draft is made of layers of the target, copy the target's keys and values instead.
        """
        held = [prompt.keys_values() for prompt in prompts if prompt.keys_values is not None]
        if self._shared and held:
            self._cache.begin([shared_layers(each, self._shared) for each in held])
        else:
            self._forward([prompt.prompt_ids for prompt in prompts])

    def _forward(self, missing: Sequence[Sequence[int]]) -> Tensor:
        """Run the committed tokens that the cache lacks.

        Return the logits after the last token of each row. -> [B, 1, V]
        """
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
        return upload(torch.tensor(numbers, dtype=torch.int64), self.device)


def _padded(rows: Sequence[Sequence[int]], length: int) -> list[list[int]]:
    return [[*row, *[0] * (length - len(row))] for row in rows]


def static_rows(
    setups: Sequence[Setup], draft: LanguageModel, shared: Sequence[int] = ()
) -> StaticRows | None:
    """Return a drafter for all rows of a batch, or None if the draft model cannot batch.

    Each row has its own seed. If the draft model is made of layers of the target, `shared` lists
    them.
    """
    model = as_batched(draft)
    if model is None:
        return None
    capacity = max(setup.capacity for setup in setups)
    source = ModelRows(model, len(setups), capacity, setups[0].target.info.vocab_size, shared)
    return StaticRows(source, [static_tree(setup) for setup in setups])
