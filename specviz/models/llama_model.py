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
from specviz.models.language_model import ForwardOutput, KeyValueCache
from specviz.models.llama_layer import LlamaLayer, take_heads, take_layer, take_norm
from specviz.models.local_model import LocalModel
from specviz.models.projection import Product, Projection
from specviz.models.rotary import Rotary, is_fixed
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
        hidden = self.embed(token_ids.reshape(-1))
        positions, layers = position_ids.reshape(-1), range(self._info.layers)
        hidden = self.run_layers(hidden, positions, cache, layers, cache.length, tree_mask, rows)
        cache.advance(count)
        chosen = slice(count - 1, None, count) if last_only else slice(None)
        features = self.norm(hidden if with_features else hidden[chosen])
        logits = self.output(features[chosen] if with_features else features)
        return ForwardOutput(
            logits.view(rows, -1, self._info.vocab_size),
            features.view(rows, count, -1) if with_features else None,
        )

    @torch.inference_mode()
    def run_layers(
        self,
        hidden: Tensor,  # [T, W]
        position_ids: Tensor,  # [T]
        cache: KeyValueCache,
        layers: range,
        start: int,
        tree_mask: Tensor | None = None,  # [N, S]
        rows: int = 1,
    ) -> Tensor:  # [T, W]
        """See `LayeredModel.run_layers`."""
        assert isinstance(cache, SlotCache)
        angles = self._rotary.angles(position_ids, start + hidden.shape[0] // rows)
        attend = attention(cache, start, self._heads, hidden, rows, tree_mask)
        for index in layers:
            hidden = self.layers[index](hidden, angles, attend, index)
        return hidden

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
