"""A cache whose slots never move, and the slots of one recorded step in it.

Knows nothing of how steps are recorded. Letters as in `slots`; E is a bound that many steps share.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specviz.models.cache import SlotCache
from specviz.models.stage import Stage, Stages


class FixedCache(SlotCache):
    """A sequence's cache on a stage of its own, one of `stages`, with room for `capacity` slots.

    More than one row finds no room there: those are held as in any other cache.
    """

    def __init__(self, layers: int, capacity: int, stage: Stage, stages: Stages) -> None:
        super().__init__(layers, capacity)
        self.stage: Stage | None = stage
        self.stages = stages
        self._buffer = stage.buffer
        self._slots = capacity

    def _open(self, start: int, end: int, like: Tensor) -> None:
        if self.stage is not None and like.shape[0] > 1:
            self.stage, self._buffer, self._slots = None, None, 0
        super()._open(start, end, like)


class FixedSlots:
    """N tokens from the stage's `start` on, which only the device knows, below slot E."""

    rows = 1

    def __init__(self, stage: Stage, count: int, end: int) -> None:
        self.count = count
        self.end = end
        keys, values = stage.buffer.narrow(3, 0, end).chunk(2, dim=2)
        self._layers, self._keys, self._values = stage.buffer.unbind(), keys, values
        self._slot_ids = stage.start + torch.arange(count, device=stage.buffer.device)  # [N]

    def write(self, layer: int, keys_values: Tensor) -> tuple[Tensor, Tensor]:
        """See `Slots.write`."""
        self._layers[layer].index_copy_(2, self._slot_ids, keys_values)
        return self._keys[layer], self._values[layer]

    def is_free(self, tree_mask: Tensor | None) -> bool:
        """Never: behind the tokens there are slots that nobody must see."""
        return False

    def visible(self, tree_mask: Tensor | None, device: torch.device) -> Tensor:  # [N, E]
        """What the mask of a tree says, which covers all E; else all slots up to a token's own."""
        if tree_mask is not None:
            return tree_mask
        return torch.arange(self.end, device=device) <= self._slot_ids[:, None]
