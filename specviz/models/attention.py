"""Attention of one forward over a cache: grouped heads, one mask for all layers.

Knows nothing of weights or positions. Letters: B rows, N query tokens, T = B * N, E = the slots up
to the last of them, S slots that a tree mask covers, A query heads, G key-value heads, R = A / G,
D head size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
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

    @property
    def parts(self) -> tuple[int, int]:
        """How many of the joined heads are queries, and how many keys and values."""
        return self.queries, 2 * self.keys


@dataclass(frozen=True, slots=True)
class Attention:
    """Writes a layer's keys and values into the cache and mixes the values that each token sees.

    `mask` is additive; without one every token sees all slots, or the tokens before it where
    `is_causal` says so (a prompt into an empty cache).
    """

    cache: SlotCache
    start: int  # the first token's slot
    heads: Heads
    rows: int
    count: int
    mask: Tensor | None  # [R * N, E]
    is_causal: bool

    def __call__(self, layer: int, joined: Tensor) -> Tensor:
        """[T, A + 2 G, D], queries before keys before values -> [T, A * D]."""
        heads, split = self.heads, (self.rows, self.count, -1, self.heads.size)
        queries, keys_values = joined.view(split).split_with_sizes(heads.parts, 2)
        keys, values = self.cache.write(layer, keys_values.transpose(1, 2), self.start)
        mixed = (self._causal if self.is_causal else self._masked)(queries, keys, values)
        return mixed.reshape(-1, heads.queries * heads.size)

    def _causal(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        mixed = F.scaled_dot_product_attention(
            queries.transpose(1, 2), keys, values, is_causal=True, enable_gqa=self.heads.group > 1
        )
        return mixed.transpose(1, 2)  # [B, N, A, D]

    def _masked(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The R query heads of a group become R * N queries of one head: nothing is repeated."""
        heads = self.heads
        split = (self.rows, self.count, heads.keys, heads.group, heads.size)
        packed = queries.view(split).permute(0, 2, 3, 1, 4)  # [B, G, R, N, D]
        packed = packed.reshape(self.rows, heads.keys, -1, heads.size)
        mixed = F.scaled_dot_product_attention(packed, keys, values, self.mask)
        unpacked = (self.rows, heads.keys, heads.group, self.count, heads.size)
        return mixed.view(unpacked).permute(0, 3, 1, 2, 4)  # [B, N, G, R, D]


def attention(
    cache: SlotCache, start: int, heads: Heads, hidden: Tensor, rows: int, tree_mask: Tensor | None
) -> Attention:
    """Attention of the tokens `hidden` [T, W] that stand at `start`, …; `tree_mask` is [N, S].

    No mask for a single token, nor for a prompt into an empty cache.
    """
    count = hidden.shape[0] // rows
    is_free = tree_mask is None and (count == 1 or start == 0)
    mask = None if is_free else _mask(hidden, start + count, count, heads.group, tree_mask)
    return Attention(cache, start, heads, rows, count, mask, is_free and count > 1)


def _mask(
    like: Tensor, end: int, count: int, group: int, tree_mask: Tensor | None
) -> Tensor:  # [R * N, E]
    """0 where a token sees a slot, minus infinity elsewhere."""
    if tree_mask is None:
        tree_mask = torch.ones((count, count), dtype=torch.bool, device=like.device).tril()
    mask = like.new_zeros((count, end))
    mask[:, end - tree_mask.shape[1] :].masked_fill_(~tree_mask, -torch.inf)
    return mask.repeat(group, 1) if group > 1 else mask
