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
    """One buffer for all layers, in which a slot is a token's keys and values.

    The buffer takes its shape from the first write and doubles up to `capacity` as it fills.
    A forward calls `write` once a layer and `advance` once at its end, so a forward that fails
    halfway leaves the cache as it was. Layers may run ahead of others: what they write behind the
    slots in use stays until it is written over.
    """

    def __init__(self, layers: int, capacity: int) -> None:
        if capacity < 1:
            raise InputError(f"cache capacity must be >= 1, got {capacity}")
        self._layer_count = layers
        self._capacity = capacity
        self._length = 0
        self._slots = 0  # C
        self._buffer: Tensor | None = None  # [M, B, 2 G, C, D]
        self._written = (0, 0)  # the slots that the last write filled, and its views of each layer:
        self._new: list[Tensor] = []  # those slots, [B, 2 G, N, D]
        self._keys: list[Tensor] = []  # all up to them, [B, G, start + N, D]
        self._values: list[Tensor] = []

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

    def write(self, layer: int, keys_values: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Put N tokens at `start`, …; return all keys and values up to them as views.

        In: [B, 2 G, N, D], key heads before value heads. Out: [B, G, start + N, D] each.
        """
        written = (start, start + keys_values.shape[2])
        if written != self._written:
            self._open(*written, keys_values)
        self._new[layer].copy_(keys_values)
        return self._keys[layer], self._values[layer]

    def advance(self, count: int) -> None:
        """Count the tokens that a whole forward has written."""
        self._length += count

    def keep(self, start: int, slots: Sequence[int]) -> None:
        """Move `slots` (ascending, from `start` on) to start, start + 1, …; drop the rest."""
        assert 0 <= start <= self._length, f"start {start} of {self._length} slots"
        assert all(a < b for a, b in zip((start - 1, *slots), (*slots, self._length), strict=True))
        in_place = sum(slot == start + i for i, slot in enumerate(slots))
        moved = slots[in_place:]
        end = start + len(slots)
        if moved and self._buffer is not None:
            self._move(moved, slice(start + in_place, end))
        self._length = end

    @torch.inference_mode()
    def _move(self, moved: Sequence[int], target: slice) -> None:
        assert self._buffer is not None
        source = torch.tensor(moved).to(self._buffer.device, non_blocking=True)
        self._buffer[..., target, :] = self._buffer.index_select(3, source)

    def _open(self, start: int, end: int, like: Tensor) -> None:
        """Make the views of one write once, for all layers that it will come to."""
        if end > self._slots:
            self._grow(end, like)
        assert self._buffer is not None
        self._new = list(self._buffer.narrow(3, start, end - start).unbind())
        keys, values = self._buffer.narrow(3, 0, end).chunk(2, dim=2)
        self._keys, self._values = list(keys.unbind()), list(values.unbind())
        self._written = (start, end)

    def _grow(self, end: int, like: Tensor) -> None:
        self.check_room(end - self._length)
        rows, heads, _, size = like.shape
        held = self._slots
        self._slots = min(self._capacity, max(FIRST_SLOTS, 1 << (end - 1).bit_length()))
        grown = like.new_empty((self._layer_count, rows, heads, self._slots, size))
        if self._buffer is not None:
            grown[..., :held, :] = self._buffer
        self._buffer = grown
