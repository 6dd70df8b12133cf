"""Models of the Llama family, layer by layer, with as few tensor operations as possible.

The family is Llama, SmolLM2, Mistral with full attention, Qwen2 and Qwen3. The model here computes
the same as `library_model`. In shapes, B is the number of rows, N the number of query tokens,
T = B * N, S the number of slots that a tree mask covers, W the hidden size and V the size of the
vocabulary.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.models.accelerator import upload
from specviz.models.cache import RaggedCache, RaggedSlots, SlotCache, Slots, StraightSlots
from specviz.models.draft_vocabulary import DraftVocabulary
from specviz.models.feature_taps import FeatureTaps
from specviz.models.language_model import ForwardOutput, KeyValueCache, RaggedKeyValueCache
from specviz.models.llama.attention import AttentionApart, additive, attention, is_single
from specviz.models.llama.few_row_layers import FewRowLayers
from specviz.models.llama.layer import LlamaLayer, take_heads, take_layer, take_norm
from specviz.models.llama.llama_config import tied_copy_bytes
from specviz.models.llama.rotary import Rotary
from specviz.models.llama.row_kernels import prepare
from specviz.models.local_model import LocalModel
from specviz.models.matrix_kernels.projection import Projection
from specviz.models.matrix_kernels.settling import settle
from specviz.records import ModelInfo


class LlamaModel(LocalModel):
    """A model of the Llama family. It takes the weights out of a transformers module."""

    def __init__(self, module: Any, info: ModelInfo) -> None:
        body = module.model
        table = body.embed_tokens.weight.detach()
        copied = tied_copy_bytes(module.config, table.device, table.dtype)
        super().__init__(replace(info, bytes=info.bytes + copied), module)
        # The bytes of all weights in their first layout, and of the output matrix in its second.
        self._weight_bytes, self._copied_bytes = info.bytes, copied
        self._heads = take_heads(module.config)
        prepare(self._heads.size, table)
        self._rotary = Rotary(body.rotary_emb, self.dtype, self.device)
        self.layers = [take_layer(body.layers, i, self._heads) for i in range(info.layers)]
        self._norm = take_norm(body.norm)
        self.head: Projection = _take_head(module, info.vocab_size)
        self._few_rows = FewRowLayers()
        self._drafted: DraftVocabulary | None = None
        # [V], the embedding row of each token. None means that the row number equals the token id.
        self._rows: Tensor | None = None

    @property
    def projections(self) -> list[Projection]:
        """Return all weight matrices of a forward pass, each with its kernels."""
        return [each for layer in self.layers for each in layer.projections] + [self.head]

    def settle(self) -> bool:
        """Choose the fastest matrix kernels for the current number of threads.

        The memory of second layouts is added to `info.bytes`. Return False if the kernels were
        already chosen.
        """
        threads = torch.get_num_threads()
        is_new = any(each.threads != threads for each in self.projections)
        settle(self.projections)
        second = sum(each.second_bytes for layer in self.layers for each in layer.projections)
        second += self._copied_bytes if self.head.second_bytes else 0
        self._info = replace(self._info, bytes=self._weight_bytes + second)
        return is_new

    def with_layers(
        self, layers: Sequence[LlamaLayer], info: ModelInfo, head: Projection | None = None
    ) -> LlamaModel:
        """Return a model with other layers and, if `head` is given, another output matrix.

        The new model shares everything else with this model.
        """
        other = copy.copy(self)
        other._info, other.layers, other.head = info, list(layers), head or self.head
        other._few_rows = FewRowLayers()
        return other

    @property
    def drafted(self) -> DraftVocabulary | None:
        """The tokens whose logits can be finite. None means all tokens of the vocabulary."""
        return self._drafted

    def in_draft_vocabulary(self) -> LlamaModel:
        """Return a model with the same weights that gives only the logits of the draft vocabulary.

        It still reads token ids of the whole vocabulary. If there is no draft vocabulary, return
        this model itself.
        """
        if self._drafted is None:
            return self
        other = copy.copy(self)
        other._info = replace(self._info, vocab_size=len(self._drafted.ids))
        other._drafted = None
        return other

    def with_vocabulary(self, drafted: DraftVocabulary) -> LlamaModel:
        """Return a model of the target's whole vocabulary; this model knows only a part of it.

        Row i of the embedding belongs to the token `drafted.ids[i]`. The row after these is the
        embedding of all other tokens, whose logits are minus infinity.
        """
        other = self.with_layers(self.layers, replace(self._info, vocab_size=drafted.whole))
        other._drafted, other._rows = drafted, drafted.rows()
        return other

    @torch.inference_mode()
    def forward(
        self,
        token_ids: Tensor,  # [B, N]
        position_ids: Tensor,  # [B, N]
        cache: KeyValueCache,
        tree_mask: Tensor | None = None,  # [N, S]
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        assert isinstance(cache, SlotCache)
        rows, count = token_ids.shape
        self._check(cache, count, tree_mask)
        slots = StraightSlots(cache, cache.length, rows, count)
        taps = FeatureTaps(feature_layers)
        hidden = self._run_all(token_ids, position_ids, slots, tree_mask, taps)
        cache.advance(count)
        last = slice(count - 1, None, count) if last_only else None
        return self._finish(hidden, rows, last, taps)

    @torch.inference_mode()
    def forward_rows(
        self,
        token_ids: Tensor,  # [B, N]
        counts: Sequence[int],
        position_ids: Tensor,  # [B, N]
        cache: RaggedKeyValueCache,
        tree_mask: Tensor | None = None,  # [B, N, S]
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        assert isinstance(cache, RaggedCache)
        rows, count = token_ids.shape
        self._check_rows(cache, counts, count, tree_mask)
        slots = RaggedSlots(cache, counts, count, self.device)
        taps = FeatureTaps(feature_layers)
        hidden = self._run_all(token_ids, position_ids, slots, tree_mask, taps)
        cache.advance(counts)
        last = slots.last + count * torch.arange(rows, device=self.device) if last_only else None
        return self._finish(hidden, rows, last, taps)

    @torch.inference_mode()
    def forward_apart(
        self,
        token_ids: Tensor,  # [T]
        position_ids: Tensor,  # [T]
        caches: Sequence[SlotCache],
        counts: Sequence[int],
        tree_mask: Tensor | None = None,  # [N, S], the same for all sequences
        last_only: bool = False,
    ) -> Tensor:  # [T, V], or only the last token of each sequence
        """Return the logits of several sequences, each with its tokens after its own cache.

        Matrix multiplications are done for all tokens together, and attention for each sequence
        alone. In float32, if the rows of a matrix multiplication do not affect each other, every
        logit has exactly the same bits as in `forward` of its sequence alone. In bfloat16 it may
        differ, because a program of `few_row_layers` computes in float32, and this method does not.
        """
        for cache, count in zip(caches, counts, strict=True):
            self._check(cache, count, tree_mask)
        pairs = zip(caches, counts, strict=True)
        slots = [StraightSlots(cache, cache.length, 1, count) for cache, count in pairs]
        hidden = self.embed(token_ids)
        angles = self._rotary.angles(position_ids, max(each.end for each in slots))
        attend = AttentionApart([attention(s, self._heads, hidden, tree_mask) for s in slots])
        for index, layer in enumerate(self.layers):
            hidden = layer(hidden, angles, attend, index)
        for cache, count in zip(caches, counts, strict=True):
            cache.advance(count)
        if last_only:
            ends = torch.tensor(counts).cumsum(0) - 1
            hidden = hidden[upload(ends, hidden.device)]
        return self.output(self.norm(hidden))

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
        assert isinstance(cache, SlotCache)
        slots = StraightSlots(cache, start, 1, hidden.shape[0])
        return self._run(hidden, position_ids, slots, layers, tree_mask, FeatureTaps(()))

    def _run_all(
        self,
        token_ids: Tensor,
        position_ids: Tensor,
        slots: Slots,
        tree_mask: Tensor | None,
        taps: FeatureTaps,
    ) -> Tensor:  # [B, N] -> [T, W]
        hidden, layers = self.embed(token_ids.reshape(-1)), range(self._info.layers)
        return self._run(hidden, position_ids.reshape(-1), slots, layers, tree_mask, taps)

    def _run(
        self,
        hidden: Tensor,
        position_ids: Tensor,
        slots: Slots,
        layers: range,
        tree_mask: Tensor | None,
        taps: FeatureTaps,
    ) -> Tensor:  # [T, W]
        if layers and is_single(slots):
            program = self._few_rows.program(self.layers, hidden)
            if program is not None:
                rows, mask = self._rotary.rows(position_ids, slots.end), additive(slots, tree_mask)
                return program.run(layers, hidden, rows, slots, mask, taps)
        angles = self._rotary.angles(position_ids, slots.end)
        attend = attention(slots, self._heads, hidden, tree_mask)
        for index in layers:
            taps.offer(index, hidden)
            hidden = self.layers[index](hidden, angles, attend, index)
        return hidden

    def _finish(
        self, hidden: Tensor, rows: int, last: slice | Tensor | None, taps: FeatureTaps
    ) -> ForwardOutput:
        """Apply the final norm and the output matrix.

        `last` selects the tokens whose logits are needed (None: all T).
        """
        if last is not None and self._info.layers not in taps:
            hidden, last = hidden[last], None
        normed = self.norm(hidden)
        taps.offer(self._info.layers, normed)
        logits, features = self.output(normed if last is None else normed[last]), taps.joined()
        return ForwardOutput(
            logits.view(rows, -1, self._info.vocab_size),
            None if features is None else features.view(rows, -1, features.shape[-1]),
        )

    def embed(self, token_ids: Tensor) -> Tensor:  # [T] -> [T, W]
        rows = token_ids if self._rows is None else self._rows[token_ids]
        return F.embedding(rows, self._embedding)

    def norm(self, hidden: Tensor) -> Tensor:  # [T, W] -> [T, W]
        return self._norm(hidden)

    def output(self, features: Tensor) -> Tensor:  # [T, W] -> [T, V]
        logits = self.head.in_float32(features)
        if self._drafted is not None:
            return self._drafted.spread(logits[:, : len(self._drafted.ids)])
        return logits[:, : self._info.vocab_size]


def _take_head(module: Any, vocab_size: int) -> Projection:
    """Return the output matrix without the rows that only pad the vocabulary."""
    weight: Tensor = module.lm_head.weight.detach()
    is_tied = module.config.tie_word_embeddings
    may_copy = not is_tied or tied_copy_bytes(module.config, weight.device, weight.dtype) > 0
    return Projection(weight[:vocab_size], is_shared=is_tied, may_copy=may_copy)
