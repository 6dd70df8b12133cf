"""A Llama-family model whose forward passes run as CUDA graphs: the fast path on a GPU.

In a forward pass of few tokens, starting the kernels one by one takes longer than running them.
This model pads the number of tokens to a power of two, and rounds up the number of cache slots that
these tokens see. Few different shapes remain, so a few graphs are enough for all forward passes. A
piece of work with several forward passes, such as all levels of a draft, also runs as one graph.

A forward pass uses a graph only if it runs at most MOST_TOKENS tokens of one sequence, and if the
cache is not empty. Prompts, batches and longer passes run kernel by kernel. In shapes, B is the
number of rows, n the number of tokens, N is n rounded up to a power of two, S the number of slots
that a tree mask covers, V the size of the vocabulary and W the hidden size.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from specviz.models.feature_taps import FeatureTaps
from specviz.models.graphs.graph_buffers import (
    MOST_TOKENS,
    FreeBuffers,
    GraphBuffers,
    GraphCache,
    GraphSlots,
    StepShape,
    WorkKind,
    WorkShape,
    captured_slots,
    slots_seen,
)
from specviz.models.language_model import ForwardOutput, KeyValueCache, LanguageModel
from specviz.models.llama.layer import LlamaLayer
from specviz.models.llama.llama_model import LlamaModel
from specviz.models.matrix_kernels.projection import Projection
from specviz.models.sequence_work import HostNumbers, SequenceWork, run_eagerly
from specviz.records import ModelInfo


class CapturedModel(LlamaModel):
    """A `LlamaModel` whose forward passes run as CUDA graphs.

    Its results differ from those of `LlamaModel` only by rounding. The results are copies, so a
    later forward pass does not overwrite them.
    """

    def __init__(self, module: Any, info: ModelInfo) -> None:
        super().__init__(module, info)
        self._free = FreeBuffers()
        # The layers whose hidden states the graphs return, in addition to the hidden state after
        # the last layer.
        self._tapped: tuple[int, ...] = ()

    def with_layers(
        self, layers: Sequence[LlamaLayer], info: ModelInfo, head: Projection | None = None
    ) -> LlamaModel:
        """Return a model that has only some of the layers, with graphs of its own.

        If `head` is given, it replaces the output matrix. The new model shares everything else with
        this model.
        """
        other = super().with_layers(layers, info, head)
        assert isinstance(other, CapturedModel)
        other._free = FreeBuffers()
        return other

    @torch.inference_mode()
    def new_cache(self, capacity: int) -> GraphCache:
        """Return an empty cache whose slots are all allocated, because graphs need fixed addresses.

        After the cache is freed, another sequence uses its memory.
        """
        slots = captured_slots(capacity)
        buffers = self._free.take(slots)
        if buffers is None:
            heads, width = self._heads, self._info.hidden_size
            buffers = GraphBuffers(
                self._info.layers, heads.keys, heads.size, width, slots, self.dtype, self.device
            )
        else:
            buffers.clear()
        self._capture_expected(buffers)
        self._capture_expected_work(buffers)
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
        """Let future graphs also return the hidden states of the layers that `taps` requests.

        Return all layers whose hidden states graphs return: those of `taps` and of earlier calls.
        """
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
        """Run the forward pass whose input is already in the buffers, by replaying its graph.

        The results stay in the buffers until the next forward pass.
        """
        shape = buffers.shape(layers, start, count, tree_mask, tapped)
        buffers.position_ids[:count].copy_(position_ids)
        buffers.write_step(shape, start, count, tree_mask)
        if not buffers.has(shape):
            self._free.expect(layers, count, shape.is_tree)
            self._capture(buffers, shape)
        return buffers.run(shape)

    def expect(self, count: int) -> None:
        """Expect passes of up to `count` tokens: the next new cache captures graphs for them."""
        for is_tree in (False, True):
            self._free.expect(None, count, is_tree)

    def _capture_expected(self, buffers: GraphBuffers) -> None:
        """Capture all graphs that the sequence may need, so that no pass waits for a capture."""
        expected = self._free.expected(buffers.slots, self._tapped)
        missing = [each for each in expected if not buffers.has(each)]
        for shape in missing:
            causal = torch.ones(shape.count, shape.count, dtype=torch.bool, device=self.device)
            buffers.write_step(shape, 0, shape.count, causal.tril() if shape.is_tree else None)
            self._capture(buffers, shape)
        if missing:
            buffers.clear()

    def _capture_expected_work(self, buffers: GraphBuffers) -> None:
        expected = self._free.expected_work(buffers.slots)
        buffers.forget_all_but([shape.kind for shape in expected])
        missing = [each for each in expected if not buffers.has(each)]
        for shape in missing:
            self._capture_work(buffers, shape)
        if missing:
            buffers.clear()

    @torch.inference_mode()
    def run_work(
        self,
        cache: KeyValueCache,
        work: SequenceWork,
        numbers: HostNumbers,
        inputs: Sequence[Tensor] = (),
    ) -> tuple[Tensor, ...]:
        """Run `work` after the cached tokens, as one graph if the buffers have space for it.

        The results are valid only until another graph of the same cache runs.
        """
        buffers = self._buffers(cache, 1, cache.length, work.tokens)
        end = cache.length + work.tokens
        if buffers is None or end > min(cache.capacity, self._info.context_length):
            # If the tokens do not fit into the cache, this call raises the error that says so.
            return run_eagerly(self, cache, work, numbers, inputs)
        kind = WorkKind.of(work, numbers, inputs)
        shape = WorkShape(kind, slots_seen(end))
        buffers.places(kind).fill(cache.length, numbers, inputs)
        self._free.expect_work(kind)
        if not buffers.has(shape):
            self._capture_work(buffers, shape)
        results = buffers.run(shape)
        cache.advance(work.tokens)
        return results

    def _capture_work(self, buffers: GraphBuffers, shape: WorkShape) -> None:
        places, work = buffers.places(shape.kind), shape.kind.work

        def run() -> tuple[Tensor, ...]:
            steps = GraphSteps(self, buffers, places.start, shape.end)
            return work(steps, places.numbers, places.inputs)

        buffers.capture(shape, run, self._rotary.reach(buffers.slots))

    def run_step(
        self,
        token_ids: Tensor,  # [n]
        position_ids: Tensor,  # [n]
        slots: GraphSlots,
        tree_mask: Tensor | None,
        last_only: bool,
        feature_layers: Sequence[int],
    ) -> ForwardOutput:
        """Run one forward pass as a part of work that is being captured."""
        taps = FeatureTaps(feature_layers)
        hidden = self._run_all(token_ids[None], position_ids, slots, tree_mask, taps)
        return self._finish(hidden, 1, slice(-1, None) if last_only else None, taps)

    def _capture(self, buffers: GraphBuffers, shape: StepShape) -> None:
        table = self._rotary.reach(buffers.slots)
        buffers.capture(shape, lambda: self._work(buffers, shape), table)

    def _work(self, buffers: GraphBuffers, shape: StepShape) -> tuple[Tensor, ...]:
        """Run a forward pass on the buffers. A CUDA graph captures this function.

        The function reads only the buffers and the weights, and never waits for the device. If the
        pass runs only some layers, the result is the hidden states after the last of them [N, W].
        If it runs the whole model, the result is logits [1, N, V], the hidden states of the
        requested layers and the result of the final norm.
        """
        slots = GraphSlots(buffers, buffers.start, shape.count, shape.end)
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
        """Return the buffers of `cache` if a graph can run these tokens, otherwise None.

        The tokens are `count` per row, from slot `start` on.

        A graph uses the weights of one model, so this model cannot use the graphs of another
        model's cache.
        """
        if not isinstance(cache, GraphCache) or cache.free is not self._free:
            return None
        return cache.buffers if rows == 1 and 0 < start and count <= MOST_TOKENS else None


class GraphSteps:
    """The forward passes of a piece of work that is captured as a CUDA graph.

    The cache slot at which the first pass starts is in device memory. Each replay of the graph
    reads it again.
    """

    def __init__(
        self, model: CapturedModel, buffers: GraphBuffers, start: Tensor, end: int
    ) -> None:
        self._model = model
        self._buffers = buffers
        self._start = start  # [1], the number of cached tokens before the first forward pass
        self._end = end
        self._ran = 0

    def forward(
        self,
        token_ids: Tensor,
        offsets: Tensor,
        mask: Tensor | None = None,
        last_only: bool = False,
        feature_layers: Sequence[int] = (),
    ) -> ForwardOutput:
        count = len(token_ids)
        slots = GraphSlots(self._buffers, self._start + self._ran, count, self._end)
        self._ran += count
        return self._model.run_step(
            token_ids, self._start + offsets, slots, mask, last_only, feature_layers
        )


def run_work(
    model: LanguageModel,
    cache: KeyValueCache,
    work: SequenceWork,
    numbers: HostNumbers,
    inputs: Sequence[Tensor] = (),
) -> tuple[Tensor, ...]:
    """Run `work` after the cached tokens, as one CUDA graph if the model supports that."""
    run = model.run_work if isinstance(model, CapturedModel) else partial(run_eagerly, model)
    return run(cache, work, numbers, inputs)
