"""Keys and values of one sequence or of several, and the slots that a forward takes in them.

Both caches are written in place and cut by index. Letters: M layers, B rows, C slots allocated,
G key-value heads, D head size, L slots in use, N new tokens, E = the slots up to the last of them,
S slots that a tree mask covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

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
        self._positions: Tensor | None = None  # [capacity]; None: every slot's is its index

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

    def place(self, position_ids: Tensor, start: int) -> Tensor:
        """Note where in the text N tokens from slot `start` on stand. [N] -> that of all, [E]

        What is kept stands at its slot; nodes of a tree that is still growing do not.
        """
        end = start + len(position_ids)
        if self._positions is None:
            self._positions = torch.arange(self._capacity, device=position_ids.device)
        self._positions[start:end] = position_ids
        return self._positions[:end]

    def held(self, count: int) -> tuple[Tensor, ...]:
        """Of each layer, keys and values in the first `count` slots as views, [B, 2 G, N, D]."""
        assert self._buffer is not None and count <= self._length
        return self._buffer.narrow(3, 0, count).unbind()

    def begin(self, keys_values: Sequence[Tensor]) -> None:
        """Begin an empty cache with a copy of each layer's keys and values, [B, 2 G, N, D]."""
        count = keys_values[0].shape[2]
        assert self._length == 0 and len(keys_values) == self._layer_count
        self.check_room(count)
        for layer, each in enumerate(keys_values):
            self.write(layer, each, 0)
        self.advance(count)

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
        self._positions = None

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
        self._positions: Tensor | None = None  # [B, capacity or more]; None: every slot's index

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

    def place(self, position_ids: Tensor, row_ids: Tensor, slot_ids: Tensor, end: int) -> Tensor:
        """See `SlotCache.place`: [B, N] at slots [B, N] of rows [B, 1] -> [B, end]."""
        if self._positions is None or self._positions.shape[1] < end:
            slots = torch.arange(max(end, self._capacity), device=position_ids.device)
            grown = slots.expand(self.rows, -1).clone()
            if self._positions is not None:
                grown[:, : self._positions.shape[1]] = self._positions
            self._positions = grown
        self._positions[row_ids, slot_ids] = position_ids
        return self._positions[:, :end]

    def held(self, row: int, count: int) -> tuple[Tensor, ...]:
        """Of each layer, keys and values in a row's first `count` slots: views, [1, 2 G, N, D]."""
        assert self._buffer is not None and count <= self._lengths[row]
        return self._buffer[:, row : row + 1].narrow(3, 0, count).unbind()

    def begin(self, rows: Sequence[Sequence[Tensor]]) -> None:
        """Begin an empty cache with a copy of each row's keys and values, layer by layer.

        `rows` [B] of [M] of [1, 2 G, N, D], where N may differ from row to row.
        """
        counts = [row[0].shape[2] for row in rows]
        assert not any(self._lengths) and len(rows) == self.rows
        self.check_room(counts)
        first = rows[0][0]
        self._grow(max(counts), first.expand(self.rows, -1, -1, -1))
        assert self._buffer is not None
        for number, (row, count) in enumerate(zip(rows, counts, strict=True)):
            for layer, each in enumerate(row):
                self._buffer[layer, number].narrow(1, 0, count).copy_(each[0])
        self.advance(counts)

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
        self._positions = None
        if moves and self._buffer is not None:
            rows, sources, targets = (
                torch.tensor(moves).t().to(self._buffer.device, non_blocking=True)
            )
            self._buffer[:, rows, :, targets] = self._buffer[:, rows, :, sources]

    @torch.inference_mode()
    def select(self, rows: Sequence[int]) -> None:
        """Only these rows stay, in this order."""
        self._lengths = [self._lengths[row] for row in rows]
        self._positions = None
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


class Slots(Protocol):
    """The slots that one forward's tokens take."""

    @property
    def rows(self) -> int: ...  # B

    @property
    def count(self) -> int: ...  # N

    @property
    def end(self) -> int: ...  # E

    def write(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Put keys and values there; return all of the layer's up to E.

        In: [B, 2 G, N, D], key heads before value heads. Out: [B, G, E, D] each.
        """
        ...

    def is_free(self, tree_mask: Tensor | None) -> bool:
        """Whether each token sees all slots up to its own, in all rows alike.

        That is so for a single token behind a cache, and for a prompt into an empty one.
        """
        ...

    def visible(self, tree_mask: Tensor | None, device: torch.device) -> Tensor:
        """[N, E] or [B, 1, N, E] bool, True = attend."""
        ...


class PlacedSlots(Slots, Protocol):
    """Slots that know where in the text they stand, as layers with a sliding window ask."""

    def place(self, position_ids: Tensor) -> Tensor:
        """Note where the tokens stand. [B, N] -> that of all slots up to E, [E] or [B, 1, E]"""
        ...


@dataclass(frozen=True, slots=True)
class StraightSlots:
    """The same slots in every row: start, start + 1, …"""

    cache: SlotCache
    start: int
    rows: int
    count: int

    @property
    def end(self) -> int:
        return self.start + self.count

    def write(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        return self.cache.write(layer, keys_values, self.start)

    def place(self, position_ids: Tensor) -> Tensor:
        return self.cache.place(position_ids[0], self.start)

    def is_free(self, tree_mask: Tensor | None) -> bool:
        return tree_mask is None and (self.count == 1 or self.start == 0)

    def visible(self, tree_mask: Tensor | None, device: torch.device) -> Tensor:  # [N, E]
        """All slots, but of the last S what `tree_mask` [N, S] says."""
        seen = torch.ones((self.count, self.end), dtype=torch.bool, device=device)
        if tree_mask is None:
            return seen.tril_(self.start)
        seen[:, self.end - tree_mask.shape[1] :] = tree_mask
        return seen


class RaggedSlots:
    """Each row's own next slots; tokens behind a row's count are padding."""

    def __init__(
        self, cache: RaggedCache, counts: Sequence[int], count: int, device: torch.device
    ) -> None:
        assert all(0 <= real <= count for real in counts)
        self.rows = cache.rows
        self.count = count
        self.end = max(cache.lengths) + count
        self._cache = cache
        self._is_even = len(set(cache.lengths)) == 1
        table = torch.tensor((cache.lengths, counts)).to(device, non_blocking=True)
        self._lengths = table[0, :, None]  # [B, 1]
        self._counts = table[1]  # [B]
        self._row_ids = torch.arange(self.rows, device=device)[:, None]  # [B, 1]
        self._slot_ids = self._lengths + torch.arange(count, device=device)  # [B, N]

    @property
    def last(self) -> Tensor:
        """Index of each row's last token among the N, [B]; 0 for a row that is all padding."""
        return (self._counts - 1).clamp_(min=0)

    def write(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        return self._cache.write(layer, keys_values, self._row_ids, self._slot_ids, self.end)

    def place(self, position_ids: Tensor) -> Tensor:
        held = self._cache.place(position_ids, self._row_ids, self._slot_ids, self.end)
        return held[:, None]

    def is_free(self, tree_mask: Tensor | None) -> bool:
        is_free = self.count == 1 or self.end == self.count
        return tree_mask is None and self._is_even and is_free

    def visible(self, tree_mask: Tensor | None, device: torch.device) -> Tensor:  # [B, 1, N, E]
        """What `tree_mask` [B, N, S] says of each row's last S slots up to L + N, and all before.

        Every token, padding too, sees itself; so none sees nothing.
        """
        slots = torch.arange(self.end, device=device)
        own = self._slot_ids[:, :, None]  # [B, N, 1]
        if tree_mask is None:
            return (slots <= own)[:, None]
        covered = tree_mask.shape[2]
        columns = slots - (self._lengths + (self.count - covered))  # [B, E]
        inside = columns.clamp(0, covered - 1)[:, None].expand(-1, self.count, -1)
        seen = tree_mask.gather(2, inside)
        seen &= (columns < covered)[:, None]
        seen |= (columns < 0)[:, None]
        return (seen | (slots == own))[:, None]
