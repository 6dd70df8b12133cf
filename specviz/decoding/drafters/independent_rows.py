"""Rows that draft together and get, to the bit, the numbers that each would draft for itself.

For a quantised copy of the target, whose products round their inputs: a difference in the last
bit, as any other forward of many rows makes, would be magnified until other tokens are drafted.
Letters: A rows that run, M nodes of a level in one row, S nodes run so far with these, V
vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.decoding.drafters.base import HeldMemory, Observation, PrefilledPrompt
from specviz.decoding.drafters.source import shared_layers
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.llama.projection import KERNEL_ROWS


class IndependentRows:
    """A cache per row, of the target's own layers `shared`; see `RowsSource`.

    So many rows run at once that an int8 product keeps them apart.
    """

    def __init__(self, model: LlamaModel, capacities: Sequence[int], shared: Sequence[int]) -> None:
        self._model = model
        self._shared = shared
        self._caches = [model.new_cache(capacity) for capacity in capacities]
        self._root_ends = [0] * len(capacities)  # slots that hold committed tokens
        self._ran = [0] * len(capacities)  # nodes of the present tree that are in the cache

    @property
    def memory(self) -> HeldMemory:
        return HeldMemory(self._model.info.bytes, sum(cache.bytes for cache in self._caches))

    @property
    def device(self) -> torch.device:
        return self._model.device

    def start(self, prompts: Sequence[PrefilledPrompt]) -> None:
        """Begin with the target's own keys and values of the prompts."""
        for cache, prompt in zip(self._caches, prompts, strict=True):
            assert prompt.keys_values is not None
            cache.begin(shared_layers(prompt.keys_values(), self._shared))

    def begin(self, rows: Sequence[int], committed: Sequence[Sequence[int]]) -> Tensor:
        """See `RowsSource.begin`."""
        missing: list[Sequence[int]] = []
        places: list[Sequence[int]] = []
        for row in rows:
            length, end = self._caches[row].length, len(committed[row])
            missing.append(committed[row][length:])
            places.append(range(length, end))
            self._root_ends[row], self._ran[row] = end, 0
        token_ids, positions = ([i for each in ids for i in each] for ids in (missing, places))
        counts = [len(ids) for ids in missing]
        return self._forward(rows, counts, torch.tensor(token_ids), torch.tensor(positions))

    def extend(
        self, rows: Sequence[int], token_ids: Tensor, depth: int, mask: Tensor | None
    ) -> Tensor:
        """See `RowsSource.extend`."""
        count = token_ids.shape[1]
        positions = torch.tensor([self._root_ends[row] - 1 + depth for row in rows])
        for row in rows:
            self._ran[row] += count
        counts, places = [count] * len(rows), positions.repeat_interleave(count)
        return self._forward(rows, counts, token_ids.flatten(), places, mask, is_level=True)

    def _forward(
        self,
        rows: Sequence[int],
        counts: Sequence[int],
        token_ids: Tensor,  # [T], of one row after the other
        positions: Tensor,  # [T]
        mask: Tensor | None = None,
        is_level: bool = False,
    ) -> Tensor:  # [A, M, V] of a level, else [A, 1, V] after each row's last
        caches = [self._caches[row] for row in rows]
        logits: list[Tensor] = []
        for first, behind in _groups(counts):
            own = slice(sum(counts[:first]), sum(counts[:behind]))
            part = slice(first, behind)
            logits.append(
                self._model.forward_apart(
                    token_ids[own], positions[own], caches[part], counts[part], mask, not is_level
                )
            )
        return torch.cat(logits).view(len(rows), -1, self._model.info.vocab_size)

    def keep(self, observations: Sequence[Observation]) -> None:
        """See `RowsSource.keep`."""
        states = zip(self._caches, self._root_ends, self._ran, observations, strict=True)
        for cache, end, ran, observation in states:
            cache.keep(end, [end + origin for origin in observation.origins if 0 <= origin < ran])

    def select(self, rows: Sequence[int]) -> None:
        self._caches = [self._caches[row] for row in rows]
        self._root_ends = [self._root_ends[row] for row in rows]
        self._ran = [self._ran[row] for row in rows]


def _groups(counts: Sequence[int]) -> list[tuple[int, int]]:
    """Rows that run together, as spans: at most KERNEL_ROWS tokens, or a row that has more.

    >>> _groups([2] * 9 + [20, 1])
    [(0, 8), (8, 9), (9, 10), (10, 11)]
    """
    groups: list[tuple[int, int]] = []
    first, tokens = 0, 0
    for row, count in enumerate(counts):
        if row > first and tokens + count > KERNEL_ROWS:
            groups.append((first, row))
            first, tokens = row, 0
        tokens += count
    return [*groups, (first, len(counts))]
