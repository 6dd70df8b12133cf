"""The common part of `LlamaModel` and `LibraryModel`: description, device, cache and limits.

This module does not know how a forward pass runs. In shapes, V is the size of the vocabulary and W
the hidden size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specviz.errors import InputError
from specviz.models.cache import RaggedCache, SlotCache
from specviz.records import ModelInfo

# The names under which architectures store their number of experts.
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


class LocalModel:
    """A model whose weights are in this process.

    The device and the dtype of the model are those of its input embedding.
    """

    def __init__(self, info: ModelInfo, module: Any) -> None:
        self._info = info
        self._embedding: Tensor = module.get_input_embeddings().weight.detach()  # [V, W]
        output = module.get_output_embeddings()
        self._is_tied = output is not None and output.weight is module.get_input_embeddings().weight
        self._has_experts = any(hasattr(module.config, name) for name in _EXPERTS)

    @property
    def info(self) -> ModelInfo:
        return self._info

    @property
    def device(self) -> torch.device:
        return self._embedding.device

    @property
    def dtype(self) -> torch.dtype:
        return self._embedding.dtype

    @property
    def step_bytes(self) -> int | None:
        """Return how many bytes of weights a forward pass of one token reads.

        Return None for a mixture of experts, because the number depends on the chosen experts. An
        input embedding does not count unless it is also the output matrix: a token reads only one
        of its rows.
        """
        if self._has_experts:
            return None
        idle = 0 if self._is_tied else self._embedding.numel()
        return (self._info.parameters - idle) * self.dtype.itemsize

    def new_cache(self, capacity: int) -> SlotCache:
        return SlotCache(self._info.layers, capacity)

    def new_ragged_cache(self, rows: int, capacity: int) -> RaggedCache:
        return RaggedCache(self._info.layers, rows, capacity)

    def _check(self, cache: SlotCache, count: int, tree_mask: Tensor | None) -> None:
        """Raise InputError if the cache lacks space, or if a token is beyond the context length.

        The check uses slot numbers only, because reading positions would wait for the device.
        Without a mask, a token's position is its slot number. In a tree, only the root has its slot
        number as position, and the drafter limits the depth of the nodes. So a tree may take more
        slots than the context has left.
        """
        cache.check_room(count)
        self._check_position(
            cache.length + count - (1 if tree_mask is None else tree_mask.shape[1])
        )

    def _check_rows(
        self, cache: RaggedCache, counts: Sequence[int], count: int, tree_mask: Tensor | None
    ) -> None:
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
