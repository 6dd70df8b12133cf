"""KV caches: the keys and values of one sequence or of several.

A slot of a cache holds the keys and values of one token. Caches are written in place. To remove
rejected tokens, a cache moves the accepted tokens to the front, and later overwrites the slots
after them.

In shapes, M is the number of layers, B the number of rows, C the number of slots allocated, G the
number of key-value heads, D the head size, L the number of slots in use, N the number of new
tokens, E the number of slots up to the last new token and S the number of slots that a tree mask
covers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.errors import InputError
from specviz.models.accelerator import upload

FIRST_SLOTS = 256


class SlotCache:
    """The KV cache of one sequence, or of rows of equal length: one buffer for all layers.

    The buffer takes its shape from the first write. It doubles when it is full, up to `capacity`
    slots. A forward pass calls `write` once per layer and `advance` once at its end.
    `length` grows only in `advance`, so a pass that fails halfway does not change which slots are
    in use.

    An early-exit drafter runs the first layers of the model before the remaining ones. The first
    layers write their keys and values to slots after the used slots. They stay there until another
    write replaces them, so verification runs only the remaining layers.
    """

    def __init__(self, layers: int, capacity: int) -> None:
        if capacity < 1:
            raise InputError(f"cache capacity must be >= 1, got {capacity}")
        self._layer_count = layers
        self._capacity = capacity
        self._length = 0
        self._slots = 0  # C, the number of allocated slots
        self._buffer: Tensor | None = None  # [M, B, 2 G, C, D]
        # The first slot of the last write, and the slot after the last slot of that write. `_new`,
        # `_keys` and `_values` have views of the buffer for this write, one view per layer.
        self._written = (0, 0)
        self._new: list[Tensor] = []  # the slots that the last write filled, [B, 2 G, N, D]
        # All slots up to the end of the last write, [B, G, start + N, D].
        self._keys: list[Tensor] = []
        self._values: list[Tensor] = []
        # The text position of the token in every slot, [capacity]. If this is None, the position of
        # every token is the index of its slot.
        self._positions: Tensor | None = None

    @property
    def length(self) -> int:
        return self._length

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def bytes(self) -> int:
        """Return the current size of the buffer in bytes."""
        return 0 if self._buffer is None else self._buffer.nbytes

    def check_room(self, count: int) -> None:
        """Raise InputError if the cache does not have space for `count` more tokens."""
        if self._length + count > self._capacity:
            raise InputError(
                f"cache has {self._capacity} slots, {self._length} of them in use: "
                f"no room for {count} more tokens; shorten the prompt or the output"
            )

    def write(self, layer: int, keys_values: Tensor, start: int) -> tuple[Tensor, Tensor]:
        """Write keys and values of N tokens to the slots `start`, start + 1, … of one layer.

        `keys_values` is [B, 2 G, N, D], key heads before value heads. Return views of the keys and
        of the values of all tokens up to the last new one, [B, G, start + N, D] each.
        """
        rows, heads, count, size = keys_values.shape
        opened = self.open(layer, (rows, heads, size), start, count, keys_values)
        self._new[layer].copy_(keys_values)
        return opened

    def open(
        self, layer: int, shape: tuple[int, int, int], start: int, count: int, like: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return what `write` returns, but write nothing: the caller fills the new slots.

        `shape` is (B, 2 G, D). `like` has the dtype and device of the keys and values.
        """
        written = (start, start + count)
        if written != self._written:
            self._open(*written, shape, like)
        return self._keys[layer], self._values[layer]

    def advance(self, count: int) -> None:
        """Add `count` to the number of used slots, after a forward pass has written the slots."""
        self._length += count

    def place(self, position_ids: Tensor, start: int) -> Tensor:
        """Store the text positions [N] of the tokens in slots `start`, start + 1, …

        Return the text positions of all slots up to the last new token, [E].

        The position of an accepted token is its slot number. Nodes of a draft tree that have the
        same depth share a position, so their positions are not their slot numbers.
        """
        end = start + len(position_ids)
        if self._positions is None:
            self._positions = torch.arange(self._capacity, device=position_ids.device)
        self._positions[start:end] = position_ids
        return self._positions[:end]

    def held(self, count: int) -> tuple[Tensor, ...]:
        """Return views of the keys and values in the first `count` slots.

        There is one view [B, 2 G, count, D] per layer.
        """
        assert self._buffer is not None and count <= self._length
        return self._buffer.narrow(3, 0, count).unbind()

    def begin(self, keys_values: Sequence[Tensor]) -> None:
        """Fill an empty cache with copies of keys and values, one [B, 2 G, N, D] per layer."""
        count = keys_values[0].shape[2]
        assert self._length == 0 and len(keys_values) == self._layer_count
        self.check_room(count)
        for layer, each in enumerate(keys_values):
            self.write(layer, each, 0)
        self.advance(count)

    def keep(self, start: int, slots: Sequence[int]) -> None:
        """Move the content of `slots` (ascending, >= `start`) to the slots from `start` on.

        All later slots count as unused.
        """
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
        source = upload(torch.tensor(moved), self._buffer.device)
        self._buffer[..., target, :] = self._buffer.index_select(3, source)

    def _open(self, start: int, end: int, shape: tuple[int, int, int], like: Tensor) -> None:
        """Create, for all layers, the views of the buffer that one write needs."""
        if end > self._slots:
            self._grow(end, shape, like)
        assert self._buffer is not None
        self._new = list(self._buffer.narrow(3, start, end - start).unbind())
        keys, values = self._buffer.narrow(3, 0, end).chunk(2, dim=2)
        self._keys, self._values = list(keys.unbind()), list(values.unbind())
        self._written = (start, end)

    def _grow(self, end: int, shape: tuple[int, int, int], like: Tensor) -> None:
        self.check_room(end - self._length)
        rows, heads, size = shape
        held = self._slots
        self._slots = min(self._capacity, max(FIRST_SLOTS, 1 << (end - 1).bit_length()))
        grown = like.new_empty((self._layer_count, rows, heads, self._slots, size))
        if self._buffer is not None:
            grown[..., :held, :] = self._buffer
        self._buffer = grown


class RaggedCache:
    """The KV cache of several sequences: row r uses its first `lengths[r]` slots.

    There is one buffer for all layers and rows. A forward pass calls `write` once per layer and
    `advance` once at its end. The pass also writes the padding after a row's tokens to unused
    slots, sometimes beyond the capacity. That is harmless, because no token sees padding.
    """

    def __init__(self, layers: int, rows: int, capacity: int) -> None:
        if rows < 1:
            raise InputError(f"cache rows must be >= 1, got {rows}")
        if capacity < 1:
            raise InputError(f"cache capacity must be >= 1, got {capacity}")
        self._layer_count = layers
        self._capacity = capacity
        self._lengths = [0] * rows
        self._slots = 0  # C, the number of allocated slots
        self._buffer: Tensor | None = None  # [M, B, 2 G, C, D]
        # The text position of the token in every slot, [B, capacity or more]. If this is None, the
        # position of every token is the index of its slot.
        self._positions: Tensor | None = None

    @property
    def lengths(self) -> tuple[int, ...]:
        return tuple(self._lengths)

    @property
    def rows(self) -> int:
        return len(self._lengths)

    @property
    def capacity(self) -> int:
        """Return the number of slots of each row."""
        return self._capacity

    @property
    def bytes(self) -> int:
        """Return the current size of the buffer in bytes."""
        return 0 if self._buffer is None else self._buffer.nbytes

    def check_room(self, counts: Sequence[int]) -> None:
        """Raise InputError if a row lacks space for its number of new tokens in `counts`."""
        for row, (length, count) in enumerate(zip(self._lengths, counts, strict=True)):
            if length + count > self._capacity:
                raise InputError(
                    f"row {row} of the cache has {self._capacity} slots, {length} of them in use: "
                    f"no room for {count} more tokens; shorten the prompt or the output"
                )

    def write(
        self, layer: int, keys_values: Tensor, row_ids: Tensor, slot_ids: Tensor, end: int
    ) -> tuple[Tensor, Tensor]:
        """Write keys and values [B, 2 G, N, D] of one layer to the slots [B, N] of the rows [B, 1].

        Return the keys and values in each row's first `end` slots, [B, G, end, D] each.
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
        """Increase the number of used slots of each row by the row's number in `counts`.

        Call this after a complete forward pass has written these slots.
        """
        self._lengths = [a + b for a, b in zip(self._lengths, counts, strict=True)]

    def place(self, position_ids: Tensor, row_ids: Tensor, slot_ids: Tensor, end: int) -> Tensor:
        """Store the text positions [B, N] of the tokens in the slots [B, N] of the rows [B, 1].

        Return the text positions of each row's first `end` slots, [B, end].

        Nodes of a draft tree that have the same depth share a position, so their positions are not
        their slot numbers.
        """
        if self._positions is None or self._positions.shape[1] < end:
            slots = torch.arange(max(end, self._capacity), device=position_ids.device)
            grown = slots.expand(self.rows, -1).clone()
            if self._positions is not None:
                grown[:, : self._positions.shape[1]] = self._positions
            self._positions = grown
        self._positions[row_ids, slot_ids] = position_ids
        return self._positions[:, :end]

    def held(self, row: int, count: int) -> tuple[Tensor, ...]:
        """Return views of the keys and values in a row's first `count` slots.

        There is one view [1, 2 G, count, D] per layer.
        """
        assert self._buffer is not None and count <= self._lengths[row]
        return self._buffer[:, row : row + 1].narrow(3, 0, count).unbind()

    def begin(self, rows: Sequence[Sequence[Tensor]]) -> None:
        """Fill an empty cache with copies of keys and values.

        `rows` has one list per row, with a tensor [1, 2 G, N, D] per layer. N may differ from row
        to row.
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
        """In each row, move the content of `slots` (ascending) to the slots from `starts` on.

        All later slots of the row count as unused. `starts` and `slots` have one entry per row. No
        slot in `slots` may be before the start of its row.
        """
        # each entry is (row, slot before the move, slot after the move)
        moves: list[tuple[int, int, int]] = []
        for row, (start, kept) in enumerate(zip(starts, slots, strict=True)):
            length = self._lengths[row]
            assert 0 <= start <= length, f"start {start} of {length} slots in row {row}"
            assert all(a < b for a, b in zip((start - 1, *kept), (*kept, length), strict=True))
            moves += [(row, slot, start + i) for i, slot in enumerate(kept) if slot != start + i]
            self._lengths[row] = start + len(kept)
        self._positions = None
        if moves and self._buffer is not None:
            rows, sources, targets = upload(torch.tensor(moves).t(), self._buffer.device)
            self._buffer[:, rows, :, targets] = self._buffer[:, rows, :, sources]

    @torch.inference_mode()
    def select(self, rows: Sequence[int]) -> None:
        """Keep only the rows with these indices in the cache, in the given order."""
        self._lengths = [self._lengths[row] for row in rows]
        self._positions = None
        if self._buffer is not None:
            chosen = torch.tensor(rows, dtype=torch.int64)
            chosen = upload(chosen, self._buffer.device)
            self._buffer = self._buffer.index_select(1, chosen)

    def _grow(self, end: int, like: Tensor) -> None:
        rows, heads, _, size = like.shape
        held = self._slots
        doubled = max(FIRST_SLOTS, 1 << (end - 1).bit_length())
        self._slots = max(end, min(self._capacity, doubled))
        # Use zeros instead of uninitialised memory: attention gives a hidden slot the weight 0, but
        # if the slot contains NaN, 0 times NaN is NaN.
        grown = like.new_zeros((self._layer_count, rows, heads, self._slots, size))
        if self._buffer is not None:
            grown[..., :held, :] = self._buffer
        self._buffer = grown


class Slots(Protocol):
    """The cache slots for the tokens of one forward pass."""

    @property
    def rows(self) -> int: ...  # B, the number of rows

    @property
    def count(self) -> int: ...  # N, the number of new tokens per row

    @property
    def end(self) -> int: ...  # E, the number of slots up to the last new token

    def write(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """Write the keys and values that one layer computed to these slots.

        Return the keys and the values that the layer has in all slots before slot E.

        The input is [B, 2 G, N, D], key heads before value heads. Both results are [B, G, E, D].
        """
        ...

    def is_free(self, tree_mask: Tensor | None) -> bool:
        """Return whether attention can run without a mask for these tokens.

        It can for a single token, which sees all slots, and for a prompt in an empty cache, for
        which attention is causal. All rows must have equal lengths, and there must be no tree mask.
        """
        ...

    def visible(self, tree_mask: Tensor | None, device: torch.device) -> Tensor:
        """Return a mask that is True where a token sees a slot, [N, E] or [B, 1, N, E] bool."""
        ...


class PlacedSlots(Slots, Protocol):
    """Slots that also store text positions, which layers with a sliding window need."""

    def place(self, position_ids: Tensor) -> Tensor:
        """Store the text positions [B, N].

        Return the text positions of the tokens in all slots before slot E, [E] or [B, 1, E].
        """
        ...


@dataclass(frozen=True, slots=True)
class StraightSlots:
    """Consecutive slots from `start` on, the same in every row."""

    cache: SlotCache
    start: int
    rows: int
    count: int

    @property
    def end(self) -> int:
        return self.start + self.count

    def write(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        return self.cache.write(layer, keys_values, self.start)

    def open(self, layer: int, shape: tuple[int, int, int], like: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `write` returns, but write nothing: the caller fills these slots.

        `shape` is (B, 2 G, D). `like` has the dtype and device of the keys and values.
        """
        return self.cache.open(layer, shape, self.start, self.count, like)

    def place(self, position_ids: Tensor) -> Tensor:
        return self.cache.place(position_ids[0], self.start)

    def is_free(self, tree_mask: Tensor | None) -> bool:
        return tree_mask is None and (self.count == 1 or self.start == 0)

    def visible(self, tree_mask: Tensor | None, device: torch.device) -> Tensor:  # [N, E]
        """Return which slots each token sees.

        Without `tree_mask`, a token sees all slots up to its own. A given `tree_mask` [N, S]
        decides which of the last S slots a token sees; the token sees all slots before them.
        """
        seen = torch.ones((self.count, self.end), dtype=torch.bool, device=device)
        if tree_mask is None:
            return seen.tril_(self.start)
        seen[:, self.end - tree_mask.shape[1] :] = tree_mask
        return seen


class RaggedSlots:
    """The next unused slots of each row.

    Rows may have different numbers of new tokens; shorter rows are padded.
    """

    def __init__(
        self, cache: RaggedCache, counts: Sequence[int], count: int, device: torch.device
    ) -> None:
        assert all(0 <= real <= count for real in counts)
        self.rows = cache.rows
        self.count = count
        self.end = max(cache.lengths) + count
        self._cache = cache
        self._is_even = len(set(cache.lengths)) == 1
        table = upload(torch.tensor((cache.lengths, counts)), device)
        self._lengths = table[0, :, None]  # [B, 1]
        self._counts = table[1]  # [B]
        self._row_ids = torch.arange(self.rows, device=device)[:, None]  # [B, 1]
        self._slot_ids = self._lengths + torch.arange(count, device=device)  # [B, N]

    @property
    def last(self) -> Tensor:
        """Return which of the N tokens is the last one of each row, [B].

        For a row that contains only padding, the result is 0.
        """
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
        """Return which slots each token sees.

        A given `tree_mask` [B, N, S] decides which of the last S slots of a row its tokens see.
        These S slots end at slot L + N. The tokens see all slots before them. Every token sees
        itself, even padding, because attention that sees nothing gives NaN.
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
