"""What the decoder needs of a model: forward over a draft tree, and a cache that can be cut.

Knows nothing of drafting, sampling or text. Letters: B rows, N query tokens, L cached tokens,
S slots that a tree mask covers, V vocabulary, W hidden size, F feature layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specviz.records import ModelInfo


class KeyValueCache(Protocol):
    """The keys and values of one sequence, written in place.

    `length` slots are in use. A forward writes its N tokens behind them and raises `length` by N;
    `keep` says which of those stay.
    """

    @property
    def length(self) -> int: ...

    @property
    def capacity(self) -> int: ...

    @property
    def bytes(self) -> int:
        """Memory that it takes now."""
        ...

    def keep(self, start: int, slots: Sequence[int]) -> None:
        """Move `slots` (ascending, each >= `start`) to start, start + 1, …; drop all behind them.

        Nothing is copied where the slots stand there already. `keep(n, [])` cuts back to n.
        """
        ...

    def advance(self, count: int) -> None:
        """Count `count` more slots as used, once every layer has run over their tokens."""
        ...

    def held(self, count: int) -> Sequence[Tensor]:
        """Of each layer, the keys and values in the first `count` slots: views."""
        ...

    def begin(self, keys_values: Sequence[Tensor]) -> None:
        """Fill the first slots of an empty cache with a copy of what another holds, by layer."""
        ...


class RaggedKeyValueCache(Protocol):
    """The keys and values of several sequences, each with a length of its own.

    Every row fills its slots from 0 on without holes. All methods work on all rows at once; their
    lists run parallel to the rows.
    """

    @property
    def lengths(self) -> tuple[int, ...]: ...

    @property
    def capacity(self) -> int:
        """Slots of each row."""
        ...

    @property
    def bytes(self) -> int:
        """Memory that it takes now."""
        ...

    def keep(self, starts: Sequence[int], slots: Sequence[Sequence[int]]) -> None:
        """In each row what `KeyValueCache.keep` does."""
        ...

    def held(self, row: int, count: int) -> Sequence[Tensor]:
        """Of one row what `KeyValueCache.held` gives."""
        ...

    def begin(self, rows: Sequence[Sequence[Tensor]]) -> None:
        """In each row of an empty cache what `KeyValueCache.begin` does."""
        ...

    def select(self, rows: Sequence[int]) -> None:
        """Only these rows stay, in this order; the memory of the others is freed."""
        ...


@dataclass(frozen=True, slots=True)
class ForwardOutput:
    """Logits over the real vocabulary, and each token's features where asked for.

    Features are hidden states: that of layer i goes into layer i (from 0), and that of i = the
    number of layers comes out of the final norm: it is the input of the output matrix.
    """

    logits: Tensor  # [B, N, V]
    features: Tensor | None = None  # [B, N, F W], those of several layers joined


class LanguageModel(Protocol):
    """A causal language model with full attention."""

    @property
    def info(self) -> ModelInfo: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def dtype(self) -> torch.dtype: ...

    def new_cache(self, capacity: int) -> KeyValueCache:
        """An empty cache for at most `capacity` tokens (prompt, output and one tree)."""
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
        """Run N tokens behind the cache.

        `tree_mask` covers the last S of the L + N slots, the N new ones last: token i sees the
        slot where it is True (a drafter grows a tree level by level, so S may exceed N). All
        slots before those S are seen by every token. None means causal order.
        `last_only` returns the logits of the last token alone, [B, 1, V] (prefill); the features
        (of `feature_layers`, none where that is empty) are those of all N tokens nevertheless.
        Raises InputError where the cache has no room for N more, or where causal tokens or a
        tree's first slot stand outside the context. Reads nothing back from the device.
        """
        ...

    def embed(self, token_ids: Tensor) -> Tensor:
        """Input embeddings. [N] int64 -> [N, W]"""
        ...

    def output(self, features: Tensor) -> Tensor:
        """The output matrix over the real vocabulary, without the norm. [N, W] -> [N, V]"""
        ...


class LayeredModel(LanguageModel, Protocol):
    """A model that runs layer by layer, so that a forward can stop halfway and go on later.

    The whole forward is `embed`, `run_layers` over all layers, `advance` of the cache, `norm` and
    `output`. Any split of the layers gives the same.
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
        """Run some layers over N tokens that stand at slots start … start + N - 1.

        `start` is the cache's length or, behind tokens that have not run through all layers yet,
        more. Writes these layers' keys and values into those slots; sees all slots before
        start + N, of the last S what `tree_mask` says (None: causal order). The cache's length
        stays as it is. Raises InputError where the cache has no room.
        """
        ...

    def norm(self, hidden: Tensor) -> Tensor:
        """The final norm. [N, W] -> [N, W]"""
        ...


class BatchedModel(LanguageModel, Protocol):
    """A model that runs rows of different lengths in one forward.

    Each row gets what its own `forward` over its own cache would give, to rounding.
    """

    def new_ragged_cache(self, rows: int, capacity: int) -> RaggedKeyValueCache:
        """Empty caches for `rows` sequences of at most `capacity` tokens each."""
        ...

    def forward_rows(
        self,
        token_ids: Tensor,  # [B, N] int64
        counts: Sequence[int],  # B, each from 0 to N
        position_ids: Tensor,  # [B, N] int64
        cache: RaggedKeyValueCache,
        tree_mask: Tensor | None = None,  # [B, N, S] bool, S >= N, True = attend
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        """Run the first `counts[b]` of N tokens behind each row b; the others are padding.

        Padding stands at the end of a row, may have any token and any position of the context (0
        will do), and gives logits and features without meaning. Token i of row b takes slot
        L[b] + i, L being the cache's lengths; those grow by `counts`.

        `tree_mask[b]` covers slots L[b] + N - S … L[b] + N - 1 of row b: column c is slot
        L[b] + N - S + c, whatever the count. Slots before those are seen by every token of the row,
        columns before slot 0 by none. Real tokens must not be let see padding; each token sees
        itself. None means causal order.
        `last_only` returns the logits of each row's last real token, [B, 1, V].
        Raises InputError as `forward` does, and reads nothing back from the device.
        """
        ...
