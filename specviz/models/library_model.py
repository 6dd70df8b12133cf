"""Any full-attention causal model, through the transformers library's own forward.

Knows nothing of loading, text or drafting. It is the reference that the faster paths are
compared with. Letters: B rows, N query tokens, L cached tokens, S slots that a tree mask covers,
V vocabulary, W hidden size.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import Cache

from specviz.models.cache import SlotCache
from specviz.models.language_model import ForwardOutput, KeyValueCache
from specviz.models.local_model import LocalModel
from specviz.records import ModelInfo


class LibraryModel(LocalModel):
    """A transformers model behind the `LanguageModel` interface."""

    def __init__(self, module: PreTrainedModel, info: ModelInfo) -> None:
        super().__init__(info, module.get_input_embeddings().weight)
        self._module = module.eval()

    @torch.inference_mode()
    def forward(
        self,
        token_ids: Tensor,  # [B, N]
        position_ids: Tensor,  # [B, N]
        cache: KeyValueCache,
        tree_mask: Tensor | None = None,  # [N, S]
        last_only: bool = False,
        with_features: bool = False,
    ) -> ForwardOutput:
        """See `LanguageModel.forward`."""
        assert isinstance(cache, SlotCache)
        count = token_ids.shape[1]
        self._check(cache, count, tree_mask)
        with _Features(self._module, with_features, last_only) as seen:
            logits = self._module(
                input_ids=token_ids,
                attention_mask=attention_mask(cache.length, count, tree_mask, token_ids.device),
                position_ids=position_ids,
                past_key_values=_LibraryCache(cache),
                use_cache=True,
                logits_to_keep=1 if last_only and not with_features else 0,
            ).logits
        cache.advance(count)
        return ForwardOutput(logits[..., : self._info.vocab_size], seen.features)

    @torch.inference_mode()
    def embed(self, token_ids: Tensor) -> Tensor:  # [N] -> [N, W]
        embeddings: Tensor = self._module.get_input_embeddings()(token_ids)
        return embeddings

    @torch.inference_mode()
    def output(self, features: Tensor) -> Tensor:  # [N, W] -> [N, V]
        logits: Tensor = self._module.get_output_embeddings()(features)
        return logits[..., : self._info.vocab_size]

    @torch.inference_mode()
    def plain_logits(self, token_ids: Tensor) -> Tensor:  # [B, N] -> [B, N, V]
        """The module's forward without cache, mask or positions: what all else must equal."""
        logits: Tensor = self._module(input_ids=token_ids, use_cache=False).logits
        return logits[..., : self._info.vocab_size]


class _Features:
    """Sees what goes into the output matrix during one forward; lets only the last token pass."""

    def __init__(self, module: PreTrainedModel, is_wanted: bool, last_only: bool) -> None:
        self.features: Tensor | None = None  # [B, N, W]
        self._matrix = module.get_output_embeddings() if is_wanted else None
        self._last_only = last_only

    def __enter__(self) -> _Features:
        if self._matrix is not None:
            self._hook = self._matrix.register_forward_pre_hook(self._see)
        return self

    def __exit__(self, *error: object) -> None:
        if self._matrix is not None:
            self._hook.remove()

    def _see(self, matrix: Any, inputs: tuple[Tensor]) -> tuple[Tensor]:
        (self.features,) = inputs
        return (inputs[0][:, -1:],) if self._last_only else inputs


class _LibraryCache(Cache):  # type: ignore[misc]
    """A `SlotCache` in the shape that the library's layers expect."""

    def __init__(self, slots: SlotCache) -> None:
        super().__init__(layers=[])
        self._slots = slots

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        return self._slots.write(layer, torch.cat((keys, values), dim=1), self._slots.length)

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
