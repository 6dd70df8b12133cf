"""The layers of a model on few rows of one sequence, as one program of compiled steps.

The same operations, called one by one from Python, take up to 0.15 ms longer per layer.
`LlamaLayer` runs them one by one where a program is not possible: with more rows, on a GPU, or with
a kernel of another library. In float32, the results have the same bits.

A model in bfloat16 has its weights and its cache in bfloat16, but computes in float32 here. After
each layer, it rounds the residual stream to bfloat16, so that a forward that stops between two
layers and goes on later has the same result.

In shapes, T is the number of rows, W the hidden size, I the number of inputs of attention, A the
number of query heads, G the number of key-value heads, D the head size and E the number of slots.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Protocol

import torch
from torch import Tensor

from specviz.models.cache import StraightSlots
from specviz.models.feature_taps import NO_TAPS, FeatureTaps
from specviz.models.llama.row_kernels import (
    CACHED_TYPES,
    FewRowAttention,
    HeadKernels,
    RowKernels,
    gated_call,
    head_call,
    head_kernels,
    new_frame,
    norm_call,
    rounded_call,
    row_kernels,
)
from specviz.models.matrix_kernels.choice import MOST_ALIKE
from specviz.models.matrix_kernels.program import Program, ProgramStep
from specviz.models.matrix_kernels.projection import Projection, kernel_state


class NormOfRows(Protocol):
    """A norm that compiled code can run with layers: x / sqrt(mean(x^2) + eps) * weight."""

    @property
    def weight(self) -> Tensor: ...  # [W]

    @property
    def eps(self) -> float: ...


class ProgrammedLayer(Protocol):
    """A layer that compiled code can run together with other layers, in one call."""

    @property
    def sizes(self) -> tuple[int, int, int]: ...  # (A, G, D)

    @property
    def norms(self) -> tuple[NormOfRows | None, NormOfRows] | None:
        """Return the norms before attention, if there is one, and before the MLP.

        None means that the layer has other norms, so that it cannot be part of a program.
        """
        ...

    @property
    def projections(self) -> tuple[Projection, Projection, Projection, Projection]: ...


class FewRowLayers:
    """The programs of a model's layers, one for each number of rows that has been needed."""

    def __init__(self) -> None:
        # The result of `kernel_state` for which the programs were built, and the program for each
        # number of rows.
        self._built: tuple[object, dict[int, _LayerProgram | None]] = (None, {})

    def __reduce__(self) -> tuple[type[FewRowLayers], tuple[()]]:
        """Pickle no program, because it contains addresses."""
        return FewRowLayers, ()

    def program(self, layers: Sequence[ProgrammedLayer], like: Tensor) -> _LayerProgram | None:
        """Return the program of `layers` for T rows, or None if compiled code cannot run a layer.

        `like` is [T, W], with the dtype and device of the hidden states.
        """
        state, programs = self._built
        if state is not kernel_state():
            # Store the state before building, because another thread may change a kernel meanwhile.
            # The next call then finds a different state and builds again.
            _, programs = self._built = kernel_state(), {}
        rows = len(like)
        if rows not in programs:
            programs[rows] = _program(layers, like)
        return programs[rows]


class _LayerProgram:
    """All layers of a model for a fixed number of rows, as one program."""

    def __init__(
        self, layers: Sequence[Sequence[ProgramStep]], scratch: _Scratch, kernels: HeadKernels
    ) -> None:
        self._kernels = kernels
        self._program = Program([step for steps in layers for step in steps])
        # The index of each layer's first step, and the number of all steps.
        self._starts = (0, *accumulate(map(len, layers)))
        self._scratch = scratch
        self._lock = threading.Lock()  # only one thread at a time may use the scratch memory

    def run(
        self,
        layers: range,
        hidden: Tensor,  # [T, W]
        angles: Tensor,  # [T, 2 D]
        slots: StraightSlots,
        mask: Tensor | None,  # [T, E]
        taps: FeatureTaps = NO_TAPS,
        normed: Tensor | None = None,  # [T, I]
    ) -> Tensor:  # [T, W]
        """Run some layers on the residual stream `hidden`, and return the residual stream.

        `angles` are rows of the table of `Rotary`. `mask` in float32 is added to the scores of
        attention. `taps` gets the residual stream before each layer. A layer without a norm before
        attention needs `normed` as the input of its attention.
        """
        scratch, starts = self._scratch, self._starts
        attention = FewRowAttention(self._kernels, slots, scratch.heads, mask, hidden)
        angles = angles.float().contiguous()
        assert hidden.shape == scratch.hidden.shape and len(angles) == len(hidden)
        with self._lock:
            attention.copy_frame(scratch.frame, angles.data_ptr())
            scratch.hidden.copy_(hidden)
            if normed is not None:
                scratch.entry.copy_(normed)
            for part in taps.parts(layers):
                if part.start in taps:
                    taps.offer(part.start, scratch.hidden.to(hidden.dtype, copy=True))
                first = starts[part.start]
                self._program.run(first, starts[part.stop] - first)
            return scratch.hidden.to(hidden.dtype, copy=True)


def _program(layers: Sequence[ProgrammedLayer], like: Tensor) -> _LayerProgram | None:
    if len(like) > MOST_ALIKE or not like.is_cpu or like.dtype not in CACHED_TYPES:
        return None
    stream = torch.empty(like.shape)
    width, inner = like.shape[1], layers[0].projections[-1].shape.inputs
    rows, heads = row_kernels(stream, width), head_kernels(stream, layers[0].sizes[2], like.dtype)
    if rows is None or heads is None or row_kernels(stream, inner) is None:
        return None
    scratch = _Scratch(layers[0], stream)
    is_rounded = like.dtype is not torch.float32
    programmed = []
    for index, layer in enumerate(layers):
        steps = list(scratch.steps(layer, index, rows, heads))
        if is_rounded:
            steps.append(ProgramStep(rows.rounded, rounded_call(scratch.hidden)))
        possible = [step for step in steps if step is not None]
        if len(possible) < len(steps):
            return None
        programmed.append(possible)
    return _LayerProgram(programmed, scratch, heads)


class _Scratch:
    """The memory for the results of a program's steps; all layers use the same memory."""

    def __init__(self, layer: ProgrammedLayer, like: Tensor) -> None:
        queries, keys, size = self.heads = layer.sizes
        rows, width = like.shape
        qkv, _, gate_up, down = layer.projections
        self.frame = new_frame()
        self.hidden = torch.empty_like(like)
        self._between = torch.empty_like(like)  # the residual stream between attention and the MLP
        self._normed = torch.empty_like(like)
        # The input of attention for a layer without a norm before it.
        self.entry = like.new_empty((rows, qkv.shape.inputs))
        self._joined = like.new_empty((rows, queries + 2 * keys, size))
        self._mixed = like.new_empty((rows, queries * size))
        self._both = like.new_empty((rows, gate_up.shape.outputs))
        self._gated = like.new_empty((rows, down.shape.inputs))

    def steps(
        self, layer: ProgrammedLayer, index: int, rows: RowKernels, heads: HeadKernels
    ) -> Iterator[ProgramStep | None]:
        """Yield the steps of one layer; None stands for an operation that has no compiled step."""
        if layer.norms is None:
            yield None
            return
        before, between = layer.norms
        qkv, out, gate_up, down = layer.projections
        queries, keys, _ = self.heads
        attention = head_call(self.frame, self._joined, self._mixed, index, (queries, keys))
        if before is not None:
            yield self._norm(rows, self.hidden, before)
        x = self.entry if before is None else self._normed
        yield qkv.step(x, self._joined.flatten(1))
        yield ProgramStep(heads.place, attention)
        yield ProgramStep(heads.attend, attention)
        yield out.step(self._mixed, self._between, self.hidden)
        yield self._norm(rows, self._between, between)
        yield gate_up.step(self._normed, self._both)
        yield ProgramStep(rows.gated, gated_call(self._both, self._gated))
        yield down.step(self._gated, self.hidden, self._between)

    def _norm(self, rows: RowKernels, x: Tensor, norm: NormOfRows) -> ProgramStep:
        weight = norm.weight.float().contiguous()
        return ProgramStep(rows.norm, norm_call(x, weight, self._normed, norm.eps), keeps=weight)
