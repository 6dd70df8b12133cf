"""The keys and values of several sequences of different lengths, written in place.

Each row fills its own slots from 0 on, without holes, whatever the others do. Knows nothing of
masks, positions or models. Letters: M layers, B rows, C slots allocated, N new tokens of a row,
G key-value heads, D head size.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.errors import InputError
from specviz.models.cache import FIRST_SLOTS


class RaggedCache:
    """One buffer for all layers and rows; a row's slots in use are its first `lengths[row]`.

    A forward calls `write` once a layer and `advance` once at its end. Padding behind a row's
    tokens is written too, behind the slots in use, perhaps beyond the capacity; nobody sees it.
    """

    def __init__(self, layers: int, rows: int, capacity: int) -> None:
        if rows < 1:
            raise InputError(f"cache rows must be >= 1, got {rows}")
        if capacity < 1:
            raise InputError(f"cache capacity must be >= 1, got {capacity}")
        self._layer_count = layers
        self._capacity = capacity
        self._lengths = [0] * rows
        self._slots = 0  # C
        self._buffer: Tensor | None = None  # [M, B, 2 G, C, D]

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(self._lengths)

    @property
    def rows(self) -> int:
        return len(self._lengths)

    @property
    def capacity(self) -> int:
        """Slots of each row."""
        return self._capacity

    @property
    def bytes(self) -> int:
        """Memory that the buffer takes now."""
        return 0 if self._buffer is None else self._buffer.nbytes

    def check_room(self, counts: Sequence[int]) -> None:
        """Raise InputError unless so many more tokens fit into each row."""
        for row, (length, count) in enumerate(zip(self._lengths, counts, strict=True)):
            if length + count > self._capacity:
                raise InputError(
                    f"row {row} of the cache has {self._capacity} slots, {length} of them in use: "
                    f"no room for {count} more tokens; shorten the prompt or the output"
                )

    def write(
        self, layer: int, keys_values: Tensor, row_ids: Tensor, slot_ids: Tensor, end: int
    ) -> tuple[Tensor, Tensor]:
        """Put [B, 2 G, N, D] into slots [B, N] of rows [B, 1]; return the first `end` of each row.

        Out: keys and values, [B, G, end, D] each.
        """
        if end > self._slots:
            self._grow(end, keys_values)
        assert self._buffer is not None
        held = self._buffer[layer]
        held.transpose(1, 2).index_put_((row_ids, slot_ids), keys_values.transpose(1, 2))
        heads = held.shape[1] // 2
        keys, values = held.narrow(2, 0, end).split_with_sizes((heads, heads), 1)
        return keys, values

    def advance(self, counts: Sequence[int]) -> None:
        """Count the tokens of each row that a whole forward has written."""
        self._lengths = [a + b for a, b in zip(self._lengths, counts, strict=True)]

    @torch.inference_mode()
    def keep(self, starts: Sequence[int], slots: Sequence[Sequence[int]]) -> None:
        """In each row move `slots` (ascending, from its start on) to start, …; drop the rest."""
        moves: list[tuple[int, int, int]] = []  # row, from, to
        for row, (start, kept) in enumerate(zip(starts, slots, strict=True)):
            length = self._lengths[row]
            assert 0 <= start <= length, f"start {start} of {length} slots in row {row}"
            assert all(a < b for a, b in zip((start - 1, *kept), (*kept, length), strict=True))
            moves += [(row, slot, start + i) for i, slot in enumerate(kept) if slot != start + i]
            self._lengths[row] = start + len(kept)
        if moves and self._buffer is not None:
            rows, sources, targets = (
                torch.tensor(moves).t().to(self._buffer.device, non_blocking=True)
            )
            self._buffer[:, rows, :, targets] = self._buffer[:, rows, :, sources]

    @torch.inference_mode()
    def select(self, rows: Sequence[int]) -> None:
        """Only these rows stay, in this order."""
        self._lengths = [self._lengths[row] for row in rows]
        if self._buffer is not None:
            chosen = torch.tensor(rows, dtype=torch.int64)
            chosen = chosen.to(self._buffer.device, non_blocking=True)
            self._buffer = self._buffer.index_select(1, chosen)

    def _grow(self, end: int, like: Tensor) -> None:
        rows, heads, _, size = like.shape
        held = self._slots
        doubled = max(FIRST_SLOTS, 1 << (end - 1).bit_length())
        self._slots = max(end, min(self._capacity, doubled))
        # zeros, not memory as it is: a hidden slot weighs nothing, but nothing times NaN is NaN
        grown = like.new_zeros((self._layer_count, rows, heads, self._slots, size))
        if self._buffer is not None:
            grown[..., :held, :] = self._buffer
        self._buffer = grown
