"""A model whose layers lie on several GPUs: the library's forward, with a cache for each layer.

Knows nothing of how the layers were spread.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from specviz.models.cache import SlotCache
from specviz.models.language_model import ForwardOutput, KeyValueCache
from specviz.models.library_model import LibraryModel


class SpreadModel(LibraryModel):
    """What goes in and comes out lies where the input embedding does."""

    def new_cache(self, capacity: int) -> SpreadCache:
        return SpreadCache(self._info.layers, capacity)

    def forward(
        self,
        token_ids: Tensor,  # [B, N]
        position_ids: Tensor,  # [B, N]
        cache: KeyValueCache,
        tree_mask: Tensor | None = None,  # [N, S]
        last_only: bool = False,
        with_features: bool = False,
    ) -> ForwardOutput:
        """See `LanguageModel.forward`."""
        output = super().forward(
            token_ids, position_ids, cache, tree_mask, last_only, with_features
        )
        features = output.features
        return ForwardOutput(
            output.logits.to(self.device), None if features is None else features.to(self.device)
        )

    def output(self, features: Tensor) -> Tensor:  # [N, W] -> [N, V]
        return super().output(features).to(self.device)

    def plain_logits(self, token_ids: Tensor) -> Tensor:  # [B, N] -> [B, N, V]
        return super().plain_logits(token_ids).to(self.device)


class SpreadCache(SlotCache):
    """One cache a layer, each on the device of its first write."""

    def __init__(self, layers: int, capacity: int) -> None:
        super().__init__(layers, capacity)
        self._parts = [SlotCache(1, capacity) for _ in range(layers)]

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self._parts)

    def write(self, layer: int, keys_values: Tensor, start: int) -> tuple[Tensor, Tensor]:
        return self._parts[layer].write(0, keys_values, start)

    def advance(self, count: int) -> None:
        super().advance(count)
        for part in self._parts:
            part.advance(count)

    def keep(self, start: int, slots: Sequence[int]) -> None:
        super().keep(start, slots)
        for part in self._parts:
            part.keep(start, slots)
