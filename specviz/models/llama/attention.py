"""Attention over a cache.

In shapes, B is the number of rows, N the number of query tokens, T = B * N, E the number of slots
up to the last query token, S the number of slots that a tree mask covers, A the number of query
heads, G the number of key-value heads, R = A / G and D the head size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.models.cache import Slots, StraightSlots
from specviz.models.llama.row_kernels import FewRowAttention, head_kernels


@dataclass(frozen=True, slots=True)
class Heads:
    """The numbers of heads in a layer's joined queries, keys and values, and the size of a head."""

    queries: int  # A, the number of query heads
    keys: int  # G, the number of key-value heads
    size: int  # D, the size of a head

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.queries, self.keys, self.size

    @property
    def group(self) -> int:  # R in shapes
        """Return how many query heads share one key-value head."""
        return self.queries // self.keys


class Attending(Protocol):
    """The attention of a layer, as a function of its joined queries, keys and values.

    It maps [T, A + 2 G, D] to [T, A * D].
    """

    def __call__(self, layer: int, joined: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class CachedAttention:
    """Attention that writes a layer's keys and values to the cache and reads all visible slots.

    `mask` is added to the attention scores. Without a mask, every token sees all slots. If
    `is_causal` is set (a prompt in an empty cache), every token sees only the slots up to its own.
    """

    slots: Slots
    heads: Heads
    mask: Tensor | None  # [R * N, E] or [B, 1, R * N, E]
    is_causal: bool

    def __call__(self, layer: int, joined: Tensor) -> Tensor:
        """Return the attention's result [T, A * D].

        In `joined`, queries come before keys and values.
        """
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
        """Compute attention with a mask.

        The R query heads that share a key-value head become R * N queries of one head, so that the
        keys need not be copied for each query head.
        """
        heads, rows, count = self.heads, self.slots.rows, self.slots.count
        packed = queries.reshape(rows, heads.keys, -1, heads.size)  # [B, G, R * N, D]
        mixed = F.scaled_dot_product_attention(packed, keys, values, self.mask)
        if count == 1:
            return mixed
        unpacked = mixed.view(rows, heads.keys, -1, count, heads.size)
        return unpacked.permute(0, 3, 1, 2, 4)  # [B, N, G, R, D]


def attention(
    slots: Slots, heads: Heads, like: Tensor, tree_mask: Tensor | None
) -> CachedAttention | FewRowAttention:
    """Return the attention for the tokens in `slots`, with the device and dtype of `like`.

    `tree_mask` is [N, S], or [B, N, S] for rows of different lengths.
    """
    if is_single(slots):
        kernels = head_kernels(like, heads.size)
        if kernels is not None:
            mask = additive(slots, tree_mask)
            return FewRowAttention(kernels, slots, heads.sizes, mask, like)
    if slots.is_free(tree_mask):
        return CachedAttention(slots, heads, None, slots.count > 1)
    mask = _additive(slots, like, tree_mask)
    if heads.group > 1:
        mask = torch.cat([mask] * heads.group, dim=-2)
    return CachedAttention(slots, heads, mask, is_causal=False)


def is_single(slots: Slots) -> TypeGuard[StraightSlots]:
    """Return whether the slots belong to one sequence."""
    return isinstance(slots, StraightSlots) and slots.rows == 1


def additive(slots: StraightSlots, tree_mask: Tensor | None) -> Tensor | None:
    """Return the mask [N, E] in float32 for compiled attention, or None without `tree_mask`."""
    return None if tree_mask is None else _additive(slots, torch.empty(0), tree_mask)


def _additive(slots: Slots, like: Tensor, tree_mask: Tensor | None) -> Tensor:
    """Return the mask that is added to attention scores.

    It is 0 for slots that a token sees, and minus infinity for all other slots.
    """
    hidden = ~slots.visible(tree_mask, like.device)
    return like.new_zeros(hidden.shape).masked_fill_(hidden, -torch.inf)


@dataclass(frozen=True, slots=True)
class AttentionApart:
    """Attention over several sequences, each with its own cache.

    Every sequence gets exactly the result that it would get alone.
    """

    parts: Sequence[CachedAttention | FewRowAttention]

    def __call__(self, layer: int, joined: Tensor) -> Tensor:
        """Divide the tokens into sequences and compute the attention of each sequence alone."""
        pairs = zip(self.parts, self._of_each(joined), strict=True)
        return torch.cat([part(layer, each) for part, each in pairs])

    def _of_each(self, joined: Tensor) -> tuple[Tensor, ...]:
        counts = [part.slots.count for part in self.parts]
        return torch.split_with_sizes(joined, counts)
