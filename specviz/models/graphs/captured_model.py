"""A model of the Llama family whose steps are captured as CUDA graphs: the fast path on a GPU.

A step of few tokens is started kernel by kernel, which takes longer than the kernels do. Here the
tokens are padded up to a power of two and look at a power of two of slots, so that few graphs
serve every step. What is captured: trees and tokens behind a cache, whole or some layers of it.
What runs kernel by kernel: prompts, steps of more than MOST_TOKENS tokens, batches. Letters:
n tokens, S slots that a tree mask covers, W hidden size.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specviz.models.feature_taps import FeatureTaps
from specviz.models.graphs.graph_buffers import (
    LEAST_SLOTS,
    MOST_TOKENS,
    FreeBuffers,
    GraphBuffers,
    GraphCache,
    GraphSlots,
    StepShape,
    power_of_two,
)
from specviz.models.language_model import ForwardOutput, KeyValueCache
from specviz.models.llama.llama_model import LlamaLayer, LlamaModel
from specviz.models.llama.projection import Product
from specviz.records import ModelInfo


class CapturedModel(LlamaModel):
    """Gives what its parent gives, to rounding; results are copies that stay as they are."""

    def __init__(self, module: Any, info: ModelInfo) -> None:
        super().__init__(module, info)
        self._free = FreeBuffers()
        self._tapped: tuple[int, ...] = ()  # layers whose features graphs hand out beside the last

    def with_layers(
        self, layers: Sequence[LlamaLayer], info: ModelInfo, head: Product | None = None
    ) -> LlamaModel:
        """See `LlamaModel.with_layers`; the graphs are its own."""
        other = super().with_layers(layers, info, head)
        assert isinstance(other, CapturedModel)
        other._free = FreeBuffers()
        return other

    @torch.inference_mode()
    def new_cache(self, capacity: int) -> GraphCache:
        """All slots at once, in buffers that are given back with the cache."""
        slots = max(LEAST_SLOTS, power_of_two(capacity + MOST_TOKENS))  # padding stands behind
        buffers = self._free.take(slots)
        if buffers is None:
            heads, width = self._heads, self._info.hidden_size
            buffers = GraphBuffers(
                self._info.layers, heads.keys, heads.size, width, slots, self.dtype, self.device
            )
        else:
            buffers.clear()
        self._capture_expected(buffers)
        cache = GraphCache(self._info.layers, capacity, buffers, self._free)
        weakref.finalize(cache, self._free.give, buffers).atexit = False
        return cache

    @torch.inference_mode()
    def forward(
        self,
        token_ids: Tensor,  # [B, n]
        position_ids: Tensor,  # [B, n]
        cache: KeyValueCache,
        tree_mask: Tensor | None = None,  # [n, S]
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        """See `LanguageModel.forward`."""
        rows, count = token_ids.shape
        buffers = self._buffers(cache, rows, cache.length, count)
        if buffers is None:
            return super().forward(
                token_ids, position_ids, cache, tree_mask, last_only, feature_layers
            )
        assert isinstance(cache, GraphCache)
        self._check(cache, count, tree_mask)
        taps = FeatureTaps(feature_layers)
        tapped = self._tap(taps)
        buffers.token_ids[:count].copy_(token_ids[0])
        logits, *states = self._replay(
            buffers, None, position_ids[0], cache.length, count, tree_mask, tapped
        )
        cache.advance(count)
        for layer, state in zip((*tapped, self._info.layers), states, strict=True):
            taps.offer(layer, state[:count])
        first, features = count - 1 if last_only else 0, taps.joined()
        return ForwardOutput(
            logits[:, first:count].clone(), None if features is None else features[None].clone()
        )

    def _tap(self, taps: FeatureTaps) -> tuple[int, ...]:
        """The tapped layers, those that are asked for now among them; they only grow."""
        asked = {layer for layer in taps.layers if layer < self._info.layers}
        if not asked <= set(self._tapped):
            self._tapped = tuple(sorted(asked | set(self._tapped)))
        return self._tapped

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
        buffers = self._buffers(cache, 1, start, count)
        if buffers is None:
            return super().run_layers(hidden, position_ids, cache, layers, start, tree_mask)
        assert isinstance(cache, GraphCache)
        cache.check_room(start + count - cache.length)
        buffers.hidden[:count].copy_(hidden)
        (out,) = self._replay(buffers, layers, position_ids, start, count, tree_mask)
        return out[:count].clone()

    def _replay(
        self,
        buffers: GraphBuffers,
        layers: range | None,
        position_ids: Tensor,  # [n]
        start: int,
        count: int,
        tree_mask: Tensor | None,
        tapped: tuple[int, ...] = (),
    ) -> tuple[Tensor, ...]:
        """Run what the buffers hold; the results stay there until the next step."""
        shape = buffers.shape(layers, start, count, tree_mask, tapped)
        buffers.position_ids[:count].copy_(position_ids)
        buffers.write_step(shape, start, count, tree_mask)
        if not buffers.has(shape):
            self._free.expect(layers, count, shape.is_tree)
            self._capture(buffers, shape)
        return buffers.run(shape)

    def expect(self, count: int) -> None:
        """Graphs for steps of up to `count` tokens are captured when the next cache is made."""
        for is_tree in (False, True):
            self._free.expect(None, count, is_tree)

    def _capture_expected(self, buffers: GraphBuffers) -> None:
        """Capture now what the sequence may need, so that no step of it waits for a capture."""
        expected = self._free.expected(buffers.slots, self._tapped)
        missing = [each for each in expected if not buffers.has(each)]
        for shape in missing:
            causal = torch.ones(shape.count, shape.count, dtype=torch.bool, device=self.device)
            buffers.write_step(shape, 0, shape.count, causal.tril() if shape.is_tree else None)
            self._capture(buffers, shape)
        if missing:
            buffers.clear()

    def _capture(self, buffers: GraphBuffers, shape: StepShape) -> None:
        table = self._rotary.reach(buffers.slots)
        buffers.capture(shape, lambda: self._work(buffers, shape), table)

    def _work(self, buffers: GraphBuffers, shape: StepShape) -> tuple[Tensor, ...]:
        """What is captured: reads nothing but the buffers and the weights, waits for nothing.

        Of some layers the last hidden states [N, W]; of all of them logits [1, N, V], and the
        states of the tapped layers and of the final norm.
        """
        slots = GraphSlots(buffers, shape.count, shape.end)
        positions = buffers.position_ids[: shape.count]
        mask = buffers.mask(shape) if shape.is_tree else None
        if shape.layers is not None:
            hidden = buffers.hidden[: shape.count]
            return (self._run(hidden, positions, slots, shape.layers, mask, FeatureTaps(())),)
        taps = FeatureTaps((*shape.tapped, self._info.layers))
        hidden = self._run_all(buffers.token_ids[None, : shape.count], positions, slots, mask, taps)
        logits = self._finish(hidden, 1, None, taps).logits
        return (logits, *taps.states())

    def _buffers(
        self, cache: KeyValueCache, rows: int, start: int, count: int
    ) -> GraphBuffers | None:
        """Where a graph can run these tokens; None where they run kernel by kernel.

        Graphs are of one model's weights: another one's cache has none for this.
        """
        if not isinstance(cache, GraphCache) or cache.free is not self._free:
            return None
        return cache.buffers if rows == 1 and 0 < start and count <= MOST_TOKENS else None
