"""The interfaces that the decoder needs: a model that can run a draft tree, and its KV cache.

This module knows nothing about drafting, sampling or text. In shapes, B is the number of rows, N
the number of query tokens, L the number of cached tokens, S the number of slots that a tree mask
covers, V the size of the vocabulary, W the hidden size and F the number of feature layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.records import ModelInfo


class KeyValueCache(Protocol):
    """The cached keys and values of one sequence. Every write happens in place.

    `length` slots are in use. A forward pass of N tokens writes the next N slots and increases
    `length` by N. `keep` then selects which of the N slots stay.
    """

    @property
    def length(self) -> int: ...

    @property
    def capacity(self) -> int: ...

    @property
    def bytes(self) -> int:
        """Return the current size of the cache in bytes."""
        ...

    def keep(self, start: int, slots: Sequence[int]) -> None:
        """Move the content of `slots` (ascending, >= `start`) to the slots from `start` on.

        All later slots count as unused. A slot that already has the right index is not copied.
        `keep(n, [])` cuts the cache to its first n slots.
        """
        ...

    def advance(self, count: int) -> None:
        """Add `count` to the number of used slots, after every layer has written these slots."""
        ...

    def held(self, count: int) -> Sequence[Tensor]:
        """Return views of the keys and values in the first `count` slots, one tensor per layer."""
        ...

    def begin(self, keys_values: Sequence[Tensor]) -> None:
        """Fill this empty cache with copies of keys and values, which have one tensor per layer."""
        ...


class RaggedKeyValueCache(Protocol):
    """The cached keys and values of several sequences, which can have different lengths.

    Each sequence is a row, which uses its slots from 0 on, without gaps. `keep` and `begin` work on
    all rows at once, so their lists have one entry per row.
    """

    @property
    def lengths(self) -> tuple[int, ...]: ...

    @property
    def capacity(self) -> int:
        """Return the number of slots of each row."""
        ...

    @property
    def bytes(self) -> int:
        """Return the current size of the cache in bytes."""
        ...

    def keep(self, starts: Sequence[int], slots: Sequence[Sequence[int]]) -> None:
        """Apply `KeyValueCache.keep` to each row."""
        ...

    def held(self, row: int, count: int) -> Sequence[Tensor]:
        """Return views of the keys and values in a row's first `count` slots, one per layer."""
        ...

    def begin(self, rows: Sequence[Sequence[Tensor]]) -> None:
        """Apply `KeyValueCache.begin` to each row of an empty cache."""
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Keep only the rows with these indices in the cache, in the given order.

        Free the memory of all other rows.
        """
        ...


@dataclass(frozen=True, slots=True)
class ForwardOutput:
    """The logits of a forward pass, and hidden states of each token if requested.

    The logits have no columns for padding of the vocabulary. `features` are hidden states. The
    number i of a feature layer means the input of layer i (from 0). If i is the number of layers,
    it means the result of the final norm, which is the input of the output matrix.
    """

    logits: Tensor  # [B, N, V], in the dtype of the model or in float32
    features: Tensor | None = None  # [B, N, F W], the hidden states of F layers, joined

    @property
    def row_features(self) -> Tensor | None:
        """Return the features of the first row, [N, F W].

        An output for a single sequence has only this row.
        """
        return None if self.features is None else self.features[0]


class LanguageModel(Protocol):
    """A causal language model that can run a draft tree."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def new_cache(self, capacity: int) -> KeyValueCache:
        """Return an empty cache for at most `capacity` tokens (prompt, output, a draft tree)."""
        ...

    def forward(
        self,
        token_ids: Tensor,  # [B, N] int64
        position_ids: Tensor,  # [B, N] int64
        cache: KeyValueCache,
        tree_mask: Tensor | None = None,  # [N, S] bool, S >= N, True = attend
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        """Run N tokens after the tokens in the cache.

        L slots of the cache are in use; the N new tokens take the next N slots. `tree_mask` covers
        the last S of these L + N slots. Token i sees a covered slot if row i of the mask is True
        for that slot. It sees every slot before the last S slots. A drafter grows a tree level by
        level, so S may be larger than N. A mask of None means that each token sees all slots up to
        its own.

        With `last_only`, the logits are only those of the last token, [B, 1, V]; a prefill needs no
        others. The features of `feature_layers` are always those of all N tokens.

        Raises InputError if the cache lacks space for N more tokens. Raises InputError as well if a
        token without a mask, or the first slot of a tree, is beyond the context length. Never waits
        for the device.
        """
        ...

    def embed(self, token_ids: Tensor) -> Tensor:
        """Return the input embeddings of tokens. [N] int64 -> [N, W]"""
        ...

    def output(self, features: Tensor) -> Tensor:
        """Multiply normed hidden states by the output matrix. [N, W] -> [N, V]

        If the matrix has rows that only pad the vocabulary, the result has no columns for them.
        """
        ...


class LayeredModel(LanguageModel, Protocol):
    """A model whose layers can run one by one, so that a forward pass can stop and continue later.

    A complete forward pass is `embed`, `run_layers` over all layers, `advance` of the cache, `norm`
    and `output`. The result does not depend on how the layers are divided over several calls of
    `run_layers`.
    """

    def run_layers(
        self,
        hidden: Tensor,  # [N, W]
        position_ids: Tensor,  # [N] int64
        cache: KeyValueCache,
        layers: range,
        start: int,
        tree_mask: Tensor | None = None,  # [N, S] bool
    ) -> Tensor:  # [N, W]
        """Run some layers over N tokens, which take N cache slots from `start` on.

        `start` is the cache's length, or more if earlier tokens have not run through all layers
        yet. The layers write their keys and values to those slots. A token sees all slots before
        start + N, but `tree_mask` decides about the last S of these slots. If the mask is None, a
        token sees all slots up to its own. The cache's length does not change. Raises InputError if
        the cache lacks space for the tokens.
        """
        ...

    def norm(self, hidden: Tensor) -> Tensor:
        """Apply the final norm. [N, W] -> [N, W]"""
        ...


class BatchedModel(LanguageModel, Protocol):
    """A model that can run several sequences of different lengths in one forward pass.

    Each row gets the same result as `forward` would give for this row alone, except for rounding.
    """

    def new_ragged_cache(self, rows: int, capacity: int) -> RaggedKeyValueCache:
        """Return an empty cache for `rows` sequences of at most `capacity` tokens each."""
        ...

    def forward_rows(
        self,
        token_ids: Tensor,  # [B, N] int64
        counts: Sequence[int],  # B numbers, each from 0 to N: how many tokens of each row are real
        position_ids: Tensor,  # [B, N] int64
        cache: RaggedKeyValueCache,
        tree_mask: Tensor | None = None,  # [B, N, S] bool, S >= N, True = attend
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        """Run the first `counts[b]` of the N tokens in each row b. The other tokens are padding.

        Padding is at the end of a row. It may have any token and any position within the context,
        such as 0. Its logits and features have no meaning. Token i of row b goes to slot L[b] + i,
        where L are the cache's lengths. The lengths grow by `counts`.

        `tree_mask[b]` covers slots L[b] + N - S … L[b] + N - 1 of row b, whatever the counts are.
        Its column c belongs to slot L[b] + N - S + c. Every token of the row sees all slots before
        slot L[b] + N - S. No token sees columns that would be before slot 0. The mask must hide
        padding from real tokens, and each token must see itself. If the mask is None, each token
        sees all slots up to its own.

        `last_only` returns the logits of each row's last real token, [B, 1, V]. Raises InputError
        like `forward`, and never waits for the device.
        """
        ...
