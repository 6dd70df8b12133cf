"""What both ways through a model share: its description, its place, its cache, its limits.

Knows nothing of how a forward runs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from specviz.errors import InputError
from specviz.models.cache import RaggedCache, SlotCache
from specviz.records import ModelInfo


class LocalModel:
    """A model whose weights are in this process; its input embedding says where and in what."""

    def __init__(self, info: ModelInfo, embedding: Tensor) -> None:  # [V, W]
        self._info = info
        self._embedding = embedding

    @property
    def info(self) -> ModelInfo:
        return self._info

    @property
    def device(self) -> torch.device:
        return self._embedding.device

    @property
    def dtype(self) -> torch.dtype:
        return self._embedding.dtype

    def new_cache(self, capacity: int) -> SlotCache:
        return SlotCache(self._info.layers, capacity)

    def new_ragged_cache(self, rows: int, capacity: int) -> RaggedCache:
        return RaggedCache(self._info.layers, rows, capacity)

    def _check(self, cache: SlotCache, count: int, tree_mask: Tensor | None) -> None:
        """Raise InputError where the cache has no room or a token stands outside the context.

        Told from the slots alone: to read positions would wait for the device. In causal order a
        token stands at its slot. Of a tree only the first slot that the mask covers does; how deep
        the others stand below it the drafter bounds, so a tree may have more slots than the
        context has left.
        """
        cache.check_room(count)
        self._check_position(
            cache.length + count - (1 if tree_mask is None else tree_mask.shape[1])
        )

    def _check_rows(
        self, cache: RaggedCache, counts: Sequence[int], count: int, tree_mask: Tensor | None
    ) -> None:
        """The same for rows of different lengths."""
        cache.check_room(counts)
        if tree_mask is None:
            reached = [
                length + real - 1 for length, real in zip(cache.lengths, counts, strict=True)
            ]
        else:
            reached = [length + count - tree_mask.shape[2] for length in cache.lengths]
        self._check_position(max(reached))

    def _check_position(self, last: int) -> None:
        if last >= self._info.context_length:
            raise InputError(
                f"context length of {self._info.name} is {self._info.context_length} tokens, "
                f"got position {last}; shorten the prompt or the output"
            )
