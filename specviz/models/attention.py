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

from specviz.models.slots import Slots


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

    slots: Slots
    heads: Heads
    mask: Tensor | None  # [R * N, E] or [B, 1, R * N, E]
    is_causal: bool

    def __call__(self, layer: int, joined: Tensor) -> Tensor:
        """[T, A + 2 G, D], queries before keys before values -> [T, A * D]."""
        heads, rows, count = self.heads, self.slots.rows, self.slots.count
        split = joined.view(rows, count, -1, heads.size).transpose(1, 2)  # [B, A + 2 G, N, D]
        queries, keys_values = split.tensor_split((heads.queries,), 1)
        keys, values = self.slots.write(layer, keys_values)
        mixed = (self._causal if self.is_causal else self._masked)(queries, keys, values)
        return mixed.reshape(rows * count, heads.queries * heads.size)

    def _causal(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        mixed = F.scaled_dot_product_attention(
            queries, keys, values, is_causal=True, enable_gqa=self.heads.group > 1
        )
        return mixed.transpose(1, 2)  # [B, N, A, D]

    def _masked(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """The R query heads of a group become R * N queries of one head: nothing is repeated."""
        heads, rows, count = self.heads, self.slots.rows, self.slots.count
        packed = queries.reshape(rows, heads.keys, -1, heads.size)  # [B, G, R * N, D]
        mixed = F.scaled_dot_product_attention(packed, keys, values, self.mask)
        if count == 1:
            return mixed
        unpacked = mixed.view(rows, heads.keys, -1, count, heads.size)
        return unpacked.permute(0, 3, 1, 2, 4)  # [B, N, G, R, D]


def attention(slots: Slots, heads: Heads, like: Tensor, tree_mask: Tensor | None) -> Attention:
    """Attention of the tokens at `slots`, on the device and in the dtype of `like`.

    `tree_mask` is [N, S], or [B, N, S] for rows of different lengths.
    """
    if slots.is_free(tree_mask):
        return Attention(slots, heads, None, slots.count > 1)
    hidden = ~slots.visible(tree_mask, like.device)
    mask = like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
    if heads.group > 1:
        mask = torch.cat([mask] * heads.group, dim=-2)
    return Attention(slots, heads, mask, is_causal=False)
