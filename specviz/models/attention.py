"""Attention of one forward over a cache: grouped heads, one mask for all layers.

Knows nothing of weights or positions. Letters: B rows, N query tokens, T = B * N, L cached tokens,
A query heads, G key-value heads, R = A / G, D head size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from specviz.models.cache import SlotCache


@dataclass(frozen=True, slots=True)
class Heads:
    """How a layer's joined projection splits into heads."""

    queries: int  # A
    keys: int  # G
    size: int  # D

    @property
    def group(self) -> int:  # R
        """Query heads that share one key-value head."""
        return self.queries // self.keys


@dataclass(frozen=True, slots=True)
class Attention:
    """Writes a layer's keys and values into the cache and mixes the values that each token sees.

    `mask` is additive; without one every token sees all slots, or the tokens before it where
    `is_causal` says so (a prompt into an empty cache).
    """

    cache: SlotCache
    heads: Heads
    rows: int
    count: int
    mask: Tensor | None  # [1, 1, R * N, L + N]
    is_causal: bool

    def __call__(self, layer: int, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """[T, A, D], [T, G, D], [T, G, D] -> [T, A * D]."""
        all_keys, all_values = self.cache.write(layer, self._split(keys), self._split(values))
        if self.is_causal:
            return self._causal(queries, all_keys, all_values)
        return self._masked(queries, all_keys, all_values)

    def _split(self, tokens: Tensor) -> Tensor:  # [T, G, D] -> [B, G, N, D]
        return tokens.view(self.rows, self.count, -1, self.heads.size).transpose(1, 2)

    def _causal(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        mixed = F.scaled_dot_product_attention(
            self._split(queries), keys, values, is_causal=True, enable_gqa=self.heads.group > 1
        )
        return mixed.transpose(1, 2).reshape(-1, self.heads.queries * self.heads.size)

    def _masked(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The R query heads of a group become R * N queries of one head: nothing is repeated."""
        heads = self.heads
        split = (self.rows, self.count, heads.keys, heads.group, heads.size)
        packed = queries.view(split).permute(0, 2, 3, 1, 4)  # [B, G, R, N, D]
        packed = packed.reshape(self.rows, heads.keys, -1, heads.size)
        mixed = F.scaled_dot_product_attention(packed, keys, values, self.mask)
        unpacked = (self.rows, heads.keys, heads.group, self.count, heads.size)
        mixed = mixed.view(unpacked).permute(0, 3, 1, 2, 4)
        return mixed.reshape(-1, heads.queries * heads.size)
