"""A draft model under all rows of a batch: one forward a level, whatever each row is long.

What `ModelSource` is for one row. Knows nothing of how many children a node gets, nor of
verification. Letters: A rows that take part, B rows in all, N tokens of the longest, M nodes of a
level in each row, S nodes run so far and these, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.decoding.drafters.base import Observation
from specviz.decoding.drafters.source import fitted
from specviz.models.language_model import BatchedModel


class ModelRows:
    """Logits of the draft model; each row of its cache covers a prefix of the committed tokens."""

    def __init__(self, model: BatchedModel, rows: int, capacity: int, vocab_size: int) -> None:
        self._model = model
        self._cache = model.new_ragged_cache(rows, capacity)
        self._vocab_size = vocab_size
        self._root_ends = [0] * rows  # slots that hold committed tokens
        self._ran = [0] * rows  # nodes of the present tree that are in the cache
        self.memory_bytes = model.info.bytes

    @property
    def device(self) -> torch.device:
        return self._model.device

    def begin(self, rows: Sequence[int], committed: Sequence[Sequence[int]]) -> Tensor:
        """Logits after the last committed token of some rows (ascending). -> [A, 1, V]

        `committed` is that of all rows.
        """
        lengths = self._cache.lengths
        missing: list[Sequence[int]] = [()] * len(lengths)
        for row in rows:
            missing[row] = committed[row][lengths[row] :]
            self._root_ends[row], self._ran[row] = len(committed[row]), 0
        starts = zip(lengths, missing, strict=True)
        places = [range(length, length + len(ids)) for length, ids in starts]
        longest = max(map(len, missing))
        token_ids, positions = self._on_device(
            [_padded(missing, longest), _padded(places, longest)]
        )
        counts = list(map(len, missing))
        output = self._model.forward_rows(token_ids, counts, positions, self._cache, last_only=True)
        return self._of(rows, output.logits)

    def extend(
        self, rows: Sequence[int], token_ids: Tensor, depth: int, mask: Tensor | None
    ) -> Tensor:
        """Logits after each node of a level of some rows. [A, M] -> [A, M, V]

        `mask` [M, S], the same in all of them, says who sees whom (None: a chain).
        """
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
        """Forget every node but those accepted; origins are the order in which they ran."""
        kept = [
            [end + origin for origin in observation.origins if 0 <= origin < ran]
            for end, ran, observation in zip(self._root_ends, self._ran, observations, strict=True)
        ]
        self._cache.keep(self._root_ends, kept)

    def select(self, rows: Sequence[int]) -> None:
        """Only these rows go on."""
        self._cache.select(rows)
        self._root_ends = [self._root_ends[row] for row in rows]
        self._ran = [self._ran[row] for row in rows]

    def _of(self, rows: Sequence[int], logits: Tensor) -> Tensor:
        chosen = logits if len(rows) == len(logits) else logits[self._on_device(rows)]
        return fitted(chosen, self._vocab_size)

    def _on_device(self, numbers: Sequence[object]) -> Tensor:
        return torch.tensor(numbers, dtype=torch.int64).to(self.device, non_blocking=True)


def _padded(rows: Sequence[Sequence[int]], length: int) -> list[list[int]]:
    """Zeros behind the shorter ones."""
    return [[*row, *[0] * (length - len(row))] for row in rows]
