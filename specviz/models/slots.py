"""Where the tokens of one forward stand in a cache, and which slots each of them sees.

Knows nothing of weights or positions. Letters: B rows, N query tokens, L slots in use before them,
E = the slots up to the last of them, S slots that a tree mask covers, G key-value heads,
D head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.models.cache import SlotCache
from specviz.models.ragged_cache import RaggedCache


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
