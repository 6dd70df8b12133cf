"""What the decoder needs of a model: forward over a draft tree, and a cache that can be cut.

Knows nothing of drafting, sampling or text. Letters: B rows, N query tokens, L cached tokens,
C cache capacity, V vocabulary, H hidden size.
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

    def keep(self, start: int, slots: Sequence[int]) -> None:
        """Move `slots` (ascending, each >= `start`) to start, start + 1, …; drop all behind them.

        Nothing is copied where the slots stand there already. `keep(n, [])` cuts back to n.
        """
        ...


@dataclass(frozen=True, slots=True)
class ForwardOutput:
    """Logits of every query token, over the real vocabulary, on the model's device."""

    logits: Tensor  # [B, N, V]


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
    ) -> ForwardOutput:
        """Run N tokens behind the cache.

        `tree_mask` covers the last S of the L + N slots, the N new ones last: token i sees the
        slot where it is True (a drafter grows a tree level by level, so S may exceed N). All
        slots before those S are seen by every token. None means causal order.
        `last_only` returns the logits of the last token alone, [B, 1, V] (prefill).
        Raises InputError where the cache has no room for N more, or where causal tokens or a
        tree's first slot stand outside the context. Reads nothing back from the device.
        """
        ...
