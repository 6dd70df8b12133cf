"""The keys and values of one sequence, written in place and cut by index.

Knows nothing of masks, positions or models. Letters: M layers, B rows, C slots allocated,
G key-value heads, D head size, L slots in use, N new tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.errors import InputError

FIRST_SLOTS = 256


class SlotCache:
    """One buffer for all layers: a slot holds a token's keys and values side by side.

    The buffer takes its shape from the first write and doubles up to `capacity` as it fills.
    A forward calls `write` once a layer and `advance` once at its end, so a forward that fails
    halfway leaves the cache as it was.
    """

    def __init__(self, layers: int, capacity: int) -> None:
        if capacity < 1:
            raise InputError(f"cache capacity must be >= 1, got {capacity}")
        self._layers = layers
        self._capacity = capacity
        self._length = 0
        self._buffer: Tensor | None = None  # [M, B, C, 2, G, D]

    @property
    def length(self) -> int:
        return self._length

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def bytes(self) -> int:
        """Memory that the buffer takes now."""
        return 0 if self._buffer is None else self._buffer.nbytes

    def check_room(self, count: int) -> None:
        """Raise InputError unless `count` more tokens fit."""
        if self._length + count > self._capacity:
            raise InputError(
                f"cache has {self._capacity} slots, {self._length} of them in use: "
                f"no room for {count} more tokens; shorten the prompt or the output"
            )

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Put N tokens behind the slots in use; return all keys and values as views.

        In: [B, G, N, D] each. Out: [B, G, L + N, D] each.
        """
        end = self._length + keys.shape[2]
        buffer = self._reserve(end, keys, values)[layer]
        buffer[:, self._length : end, 0].copy_(keys.transpose(1, 2))
        buffer[:, self._length : end, 1].copy_(values.transpose(1, 2))
        return buffer[:, :end, 0].transpose(1, 2), buffer[:, :end, 1].transpose(1, 2)

    def advance(self, count: int) -> None:
        """Count the tokens that a whole forward has written."""
        self._length += count

    @torch.inference_mode()
    def keep(self, start: int, slots: Sequence[int]) -> None:
        """Move `slots` (ascending, from `start` on) to start, start + 1, …; drop the rest."""
        assert 0 <= start <= self._length, f"start {start} of {self._length} slots"
        assert all(a < b for a, b in zip((start - 1, *slots), (*slots, self._length), strict=True))
        in_place = sum(slot == start + i for i, slot in enumerate(slots))
        moved = list(slots[in_place:])
        end = start + len(slots)
        if moved and self._buffer is not None:
            source = torch.tensor(moved, device=self._buffer.device)
            self._buffer[:, :, start + in_place : end] = self._buffer.index_select(2, source)
        self._length = end

    def _reserve(self, end: int, keys: Tensor, values: Tensor) -> Tensor:
        buffer = self._buffer
        if buffer is not None and end <= buffer.shape[2]:
            return buffer
        self.check_room(end - self._length)
        assert keys.shape == values.shape
        slots = min(self._capacity, max(FIRST_SLOTS, 1 << (end - 1).bit_length()))
        rows, heads, _, width = keys.shape
        grown = keys.new_empty((self._layers, rows, slots, 2, heads, width))
        if buffer is not None:
            grown[:, :, : self._length] = buffer[:, :, : self._length]
        self._buffer = grown
        return grown
