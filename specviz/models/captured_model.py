"""A model of the Llama family whose steps are recorded once and replayed: the fast path on CUDA.

A step of few tokens is started kernel by kernel, which takes longer than the kernels do. Here the
tokens are padded up to a power of two and look at a power of two of slots, so that few recordings
serve every step. What is recorded: trees and tokens behind a cache, whole or some layers of it.
What runs as ever: prompts, steps of more than MOST_TOKENS tokens, batches. Letters: n tokens,
S slots that a tree mask covers, W hidden size.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specviz.models.fixed_slots import FixedCache, FixedSlots
from specviz.models.language_model import ForwardOutput, KeyValueCache
from specviz.models.llama_layer import LlamaLayer
from specviz.models.llama_model import LlamaModel
from specviz.models.projection import Product
from specviz.models.stage import LEAST_SLOTS, MOST_TOKENS, Stage, Stages, StepShape, power_of_two
from specviz.records import ModelInfo


class CapturedModel(LlamaModel):
    """Gives what its parent gives, to rounding; results are copies that stay as they are."""

    def __init__(self, module: Any, info: ModelInfo) -> None:
        super().__init__(module, info)
        self._stages = Stages()

    def with_layers(
        self, layers: Sequence[LlamaLayer], info: ModelInfo, head: Product | None = None
    ) -> LlamaModel:
        """See `LlamaModel.with_layers`; the recordings are its own."""
        other = super().with_layers(layers, info, head)
        assert isinstance(other, CapturedModel)
        other._stages = Stages()
        return other

    @torch.inference_mode()
    def new_cache(self, capacity: int) -> FixedCache:
        """All slots at once, of a stage that is given back with the cache."""
        slots = max(LEAST_SLOTS, power_of_two(capacity + MOST_TOKENS))  # padding stands behind
        stage = self._stages.take(slots)
        if stage is None:
            heads, width = self._heads, self._info.hidden_size
            stage = Stage(
                self._info.layers, heads.keys, heads.size, width, slots, self.dtype, self.device
            )
        else:
            stage.clear()
        cache = FixedCache(self._info.layers, capacity, stage, self._stages)
        weakref.finalize(cache, self._stages.give, stage).atexit = False
        return cache

    @torch.inference_mode()
    def forward(
        self,
        token_ids: Tensor,  # [B, n]
        position_ids: Tensor,  # [B, n]
        cache: KeyValueCache,
        tree_mask: Tensor | None = None,  # [n, S]
        last_only: bool = False,
        with_features: bool = False,
    ) -> ForwardOutput:
        """See `LanguageModel.forward`."""
        rows, count = token_ids.shape
        stage = self._stage(cache, rows, cache.length, count)
        if stage is None:
            return super().forward(
                token_ids, position_ids, cache, tree_mask, last_only, with_features
            )
        assert isinstance(cache, FixedCache)
        self._check(cache, count, tree_mask)
        stage.token_ids[:count].copy_(token_ids[0])
        features, logits = self._replayed(
            stage, None, position_ids[0], cache.length, count, tree_mask
        )
        cache.advance(count)
        first = count - 1 if last_only else 0
        return ForwardOutput(
            logits[:, first:count].clone(), features[:, :count].clone() if with_features else None
        )

    @torch.inference_mode()
    def run_layers(
        self,
        hidden: Tensor,  # [n, W]
        position_ids: Tensor,  # [n]
        cache: KeyValueCache,
        layers: range,
        start: int,
        tree_mask: Tensor | None = None,  # [n, S]
    ) -> Tensor:  # [n, W]
        """See `LayeredModel.run_layers`."""
        count = hidden.shape[0]
        stage = self._stage(cache, 1, start, count)
        if stage is None:
            return super().run_layers(hidden, position_ids, cache, layers, start, tree_mask)
        assert isinstance(cache, FixedCache)
        cache.check_room(start + count - cache.length)
        stage.hidden[:count].copy_(hidden)
        (out,) = self._replayed(stage, layers, position_ids, start, count, tree_mask)
        return out[:count].clone()

    def _replayed(
        self,
        stage: Stage,
        layers: range | None,
        position_ids: Tensor,  # [n]
        start: int,
        count: int,
        tree_mask: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """Tokens or hidden states stand on the stage; so do the results, until the next step."""
        shape = stage.shape(layers, start, count, tree_mask)
        stage.position_ids[:count].copy_(position_ids)
        stage.place(shape, start, count, tree_mask)
        table = self._rotary.reach(stage.slots)
        return stage.run(shape, lambda: self._work(stage, shape), table)

    def _work(self, stage: Stage, shape: StepShape) -> tuple[Tensor, ...]:
        """What is recorded: reads nothing but the stage and the weights, waits for nothing."""
        slots = FixedSlots(stage, shape.count, shape.end)
        positions = stage.position_ids[: shape.count]
        mask = stage.seen(shape) if shape.is_tree else None
        if shape.layers is not None:
            hidden = stage.hidden[: shape.count]
            return (self._run(hidden, positions, slots, shape.layers, mask),)
        hidden = self._run_all(stage.token_ids[None, : shape.count], positions, slots, mask)
        output = self._finish(hidden, 1, None, with_features=True)
        assert output.features is not None
        return output.features, output.logits

    def _stage(self, cache: KeyValueCache, rows: int, start: int, count: int) -> Stage | None:
        """Where these tokens can be replayed; None where they run as ever.

        Recordings are of one model's weights: another one's cache has none for this.
        """
        if not isinstance(cache, FixedCache) or cache.stages is not self._stages:
            return None
        return cache.stage if rows == 1 and 0 < start and count <= MOST_TOKENS else None
