"""Any full-attention causal model, through the transformers library's own forward.

Knows nothing of loading, text or drafting. It is the reference that the faster paths are
compared with. Letters: B rows, N query tokens, L cached tokens, S slots that a tree mask covers,
V vocabulary.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from specviz.errors import InputError
from specviz.models.cache import SlotCache
from specviz.models.language_model import ForwardOutput, KeyValueCache
from specviz.records import ModelInfo


class LibraryModel:
    """A transformers model behind the `LanguageModel` interface."""

    def __init__(self, module: PreTrainedModel, info: ModelInfo) -> None:
        self._module = module.eval()
        self._info = info

    @property
    def info(self) -> ModelInfo:
        return self._info

    @property
    def device(self) -> torch.device:
        return torch.device(self._module.device)

    @property
    def dtype(self) -> torch.dtype:
        dtype = self._module.dtype
        assert isinstance(dtype, torch.dtype)
        return dtype

    def new_cache(self, capacity: int) -> SlotCache:
        return SlotCache(self._info.layers, capacity)

    @torch.inference_mode()
    def forward(
        self,
        token_ids: Tensor,  # [B, N]
        position_ids: Tensor,  # [B, N]
        cache: KeyValueCache,
        tree_mask: Tensor | None = None,  # [N, S]
        last_only: bool = False,
    ) -> ForwardOutput:
        """See `LanguageModel.forward`."""
        assert isinstance(cache, SlotCache)
        count = token_ids.shape[1]
        cache.check_room(count)
        check_positions(cache.length + count, tree_mask, self._info)
        logits = self._module(
            input_ids=token_ids,
            attention_mask=attention_mask(cache.length, count, tree_mask, token_ids.device),
            position_ids=position_ids,
            past_key_values=_LibraryCache(cache),
            use_cache=True,
            logits_to_keep=1 if last_only else 0,
        ).logits
        cache.advance(count)
        return ForwardOutput(logits[..., : self._info.vocab_size])

    @torch.inference_mode()
    def plain_logits(self, token_ids: Tensor) -> Tensor:  # [B, N] -> [B, N, V]
        """The module's forward without cache, mask or positions: what all else must equal."""
        logits: Tensor = self._module(input_ids=token_ids, use_cache=False).logits
        return logits[..., : self._info.vocab_size]


class _LibraryCache(Cache):  # type: ignore[misc]
    """A `SlotCache` in the shape that the library's layers expect."""

    def __init__(self, slots: SlotCache) -> None:
        super().__init__(layers=[])
        self._slots = slots

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        return self._slots.write(layer, torch.cat((keys, values), dim=1))

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._slots.length

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self._slots.length + query_length, 0


def attention_mask(
    cached: int, count: int, tree_mask: Tensor | None, device: torch.device
) -> Tensor:  # [1, 1, N, L + N] bool, True = attend
    """Every query sees all slots, but for the last S, where it sees what `tree_mask` says."""
    mask = torch.ones((count, cached + count), dtype=torch.bool, device=device)
    if tree_mask is None:
        mask[:, cached:].tril_()
    else:
        mask[:, -tree_mask.shape[1] :] = tree_mask
    return mask[None, None]


def check_positions(end: int, tree_mask: Tensor | None, info: ModelInfo) -> None:
    """Raise InputError where a token stands outside the context; `end` is L + N.

    Told from the slots alone: to read positions would wait for the device. In causal order a token
    stands at its slot. Of a tree only the first slot that the mask covers does; how deep the others
    stand below it the drafter bounds, so a tree may have more slots than the context has left.
    """
    last = end - (1 if tree_mask is None else tree_mask.shape[1])
    if last >= info.context_length:
        raise InputError(
            f"context length of {info.name} is {info.context_length} tokens, "
            f"got position {last}; shorten the prompt or the output"
        )
