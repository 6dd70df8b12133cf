"""Models of the Llama family, layer by layer, with as few tensor operations as possible.

Llama, SmolLM2, Mistral with full attention, Qwen2 and Qwen3. Knows nothing of loading, text or
drafting; `library_model` is the reference that it equals. Letters: B rows, N query tokens,
T = B * N, S slots that a tree mask covers, W hidden size, V vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.models.attention import attention
from specviz.models.cache import SlotCache
from specviz.models.language_model import ForwardOutput, KeyValueCache, RaggedKeyValueCache
from specviz.models.llama_layer import LlamaLayer, take_heads, take_layer, take_norm
from specviz.models.local_model import LocalModel
from specviz.models.projection import Product, Projection
from specviz.models.ragged_cache import RaggedCache
from specviz.models.rotary import Rotary, is_fixed
from specviz.models.slots import RaggedSlots, Slots, StraightSlots
from specviz.records import ModelInfo

FAMILY = ("llama", "mistral", "qwen2", "qwen3")
TIED_COPY_BYTES = 64 << 20  # a tied output matrix up to this size is copied to be packed


def is_supported(config: Any) -> bool:
    """Whether this loop computes what the model of that configuration computes."""
    return config.model_type in FAMILY and config.hidden_act == "silu" and is_fixed(config)


class LlamaModel(LocalModel):
    """Takes the weights over from a transformers module, which is empty afterwards."""

    def __init__(self, module: Any, info: ModelInfo) -> None:
        body = module.model
        super().__init__(info, body.embed_tokens.weight.detach())
        self._heads = take_heads(module.config)
        self._rotary = Rotary(body.rotary_emb, self.dtype, self.device)
        self.layers = [take_layer(body.layers, i, self._heads) for i in range(info.layers)]
        self._norm = take_norm(body.norm)
        self.head: Product = _take_head(module, info.vocab_size)

    def with_layers(
        self, layers: Sequence[LlamaLayer], info: ModelInfo, head: Product | None = None
    ) -> LlamaModel:
        """A model of these layers, and this output matrix, that shares all else with this one."""
        other = copy.copy(self)
        other._info, other.layers, other.head = info, list(layers), head or self.head
        return other

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
        rows, count = token_ids.shape
        self._check(cache, count, tree_mask)
        slots = StraightSlots(cache, cache.length, rows, count)
        hidden = self._run_all(token_ids, position_ids, slots, tree_mask)
        cache.advance(count)
        last = slice(count - 1, None, count) if last_only else None
        return self._finish(hidden, rows, last, with_features)

    @torch.inference_mode()
    def forward_rows(
        self,
        token_ids: Tensor,  # [B, N]
        counts: Sequence[int],
        position_ids: Tensor,  # [B, N]
        cache: RaggedKeyValueCache,
        tree_mask: Tensor | None = None,  # [B, N, S]
        last_only: bool = False,
        with_features: bool = False,
    ) -> ForwardOutput:
        """See `BatchedModel.forward_rows`."""
        assert isinstance(cache, RaggedCache)
        rows, count = token_ids.shape
        self._check_rows(cache, counts, count, tree_mask)
        slots = RaggedSlots(cache, counts, count, self.device)
        hidden = self._run_all(token_ids, position_ids, slots, tree_mask)
        cache.advance(counts)
        last = slots.last + count * torch.arange(rows, device=self.device) if last_only else None
        return self._finish(hidden, rows, last, with_features)

    @torch.inference_mode()
    def run_layers(
        self,
        hidden: Tensor,  # [N, W]
        position_ids: Tensor,  # [N]
        cache: KeyValueCache,
        layers: range,
        start: int,
        tree_mask: Tensor | None = None,  # [N, S]
    ) -> Tensor:  # [N, W]
        """See `LayeredModel.run_layers`."""
        assert isinstance(cache, SlotCache)
        slots = StraightSlots(cache, start, 1, hidden.shape[0])
        return self._run(hidden, position_ids, slots, layers, tree_mask)

    def _run_all(
        self, token_ids: Tensor, position_ids: Tensor, slots: Slots, tree_mask: Tensor | None
    ) -> Tensor:  # [B, N] -> [T, W]
        hidden, layers = self.embed(token_ids.reshape(-1)), range(self._info.layers)
        return self._run(hidden, position_ids.reshape(-1), slots, layers, tree_mask)

    def _run(
        self,
        hidden: Tensor,
        position_ids: Tensor,
        slots: Slots,
        layers: range,
        tree_mask: Tensor | None,
    ) -> Tensor:  # [T, W]
        angles = self._rotary.angles(position_ids, slots.end)
        attend = attention(slots, self._heads, hidden, tree_mask)
        for index in layers:
            hidden = self.layers[index](hidden, angles, attend, index)
        return hidden

    def _finish(
        self, hidden: Tensor, rows: int, last: slice | Tensor | None, with_features: bool
    ) -> ForwardOutput:
        """Norm and output matrix; `last` picks the tokens [B] of T that get logits, None all."""
        if last is not None and not with_features:
            hidden, last = hidden[last], None
        features = self.norm(hidden)
        logits = self.output(features if last is None else features[last])
        return ForwardOutput(
            logits.view(rows, -1, self._info.vocab_size),
            features.view(rows, -1, features.shape[-1]) if with_features else None,
        )

    def embed(self, token_ids: Tensor) -> Tensor:  # [T] -> [T, W]
        return F.embedding(token_ids, self._embedding)

    def norm(self, hidden: Tensor) -> Tensor:  # [T, W] -> [T, W]
        return self._norm(hidden)

    def output(self, features: Tensor) -> Tensor:  # [T, W] -> [T, V]
        return self.head(features)


def _take_head(module: Any, vocab_size: int) -> Projection:
    """The output matrix over the real vocabulary."""
    weight: Tensor = module.lm_head.weight.detach()
    is_tied = weight.data_ptr() == module.model.embed_tokens.weight.data_ptr()
    return Projection(weight[:vocab_size], may_copy=not is_tied or weight.nbytes <= TIED_COPY_BYTES)
