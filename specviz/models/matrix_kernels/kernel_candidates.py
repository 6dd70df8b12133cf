"""The candidates for multiplying a matrix: each is a layout of the weights and a kernel for it.

To add a candidate, write a class with the interface `Held`, and add an entry to `CANDIDATES`. An
entry says what the candidate needs from the machine. `measuring` finds the fastest candidate. In
shapes, T is the number of rows, I the number of inputs, O the number of outputs and N the number of
groups of inputs that share a scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.models.matrix_kernels import kernel
from specviz.models.matrix_kernels.panel_form import GROUP, MIDDLE, PanelForm
from specviz.models.matrix_kernels.panel_layout import PanelLayout
from specviz.models.matrix_kernels.program import ProgramStep
from specviz.models.matrix_kernels.weights import (
    Int4Weights,
    Int8Weights,
    MatrixShape,
    MatrixWeights,
    PlainWeights,
)

# The name of the layout [O, I], which is the layout in the model file.
PLAIN = "plain"
# oneDNN packs a matrix for an expected number of rows: one candidate packs it for each of these
# numbers.
_PACKING_ROWS = (8, 16)
# torch's int8 kernel needs a number of inputs that is divisible by this number. Otherwise it reads
# past the end of a row.
_INT8_INPUTS = 32
# torch's int4 kernel for CPUs needs a number of outputs that is divisible by this number.
_INT4_OUTPUTS = 16

# Some builds of torch lack some of these functions; a missing function is None.
_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_INT8 = getattr(torch, "_weight_int8pack_mm", None)
_INT4 = getattr(torch.ops.aten, "_weight_int4pack_mm_for_cpu", None)
_INT4_PACK = getattr(torch.ops.aten, "_convert_weight_to_int4pack_for_cpu", None)
_GPU_INT4 = getattr(torch.ops.aten, "_weight_int4pack_mm", None)
_GPU_INT4_PACK = getattr(torch.ops.aten, "_convert_weight_to_int4pack", None)
_DISPATCH_KEYS = {"cuda": "CUDA", "meta": "Meta"}  # torch's names for types of devices
# torch's int4 kernel for GPUs needs a number of outputs that is divisible by this number.
_GPU_INT4_OUTPUTS = 8
# torch's int4 kernel for GPUs needs a number of inputs that is divisible by 2, 4 or 8 times this
# number.
_GPU_INT4_INPUTS = 16


class Held(Protocol):
    """A matrix in one layout, with a kernel for it."""

    @property
    def bytes(self) -> int: ...

    def __call__(self, x: Tensor, added: Tensor | None) -> Tensor:  # [T, I] -> [T, O]
        """Return x W^T, plus `added` [O] or [T, O] if given."""
        ...

    def weights(self) -> MatrixWeights:
        """Return the weights of the matrix. They are a copy unless the layout is plain."""
        ...


@dataclass(frozen=True, slots=True)
class KernelCandidate:
    """A layout and a kernel.

    `fits` says whether this machine can use it for a matrix and a dtype of x. `make` creates the
    matrix in this layout.
    """

    name: str
    layout: str
    fits: Callable[[MatrixShape, torch.dtype], bool]
    make: Callable[[MatrixWeights], Held]

    def hold(self, weights: MatrixWeights, rows: torch.dtype) -> Held:
        """Return the matrix in this layout.

        Its kernel takes and returns rows of numbers with the dtype `rows`.
        """
        held = self.make(weights)
        if isinstance(held, Panels):
            held.prepare(rows)
            return held
        is_narrow = weights.shape.form == "bfloat16" and rows is not torch.bfloat16
        return Narrowed(held) if is_narrow else held


class Linear:
    """The kernel `F.linear` of torch, which multiplies by the plain matrix [O, I]."""

    def __init__(self, weights: MatrixWeights) -> None:
        self._values = _plain(weights)

    @property
    def bytes(self) -> int:
        return self._values.nbytes

    def __call__(self, x: Tensor, added: Tensor | None) -> Tensor:
        if added is None or added.ndim == 1:
            return F.linear(x, self._values, added)
        return F.linear(x, self._values).add_(added)

    def weights(self) -> MatrixWeights:
        return PlainWeights(self._values)


class Multiplied:
    """The kernel `torch.mm` with the transposed matrix.

    The transposed matrix is a view of the plain one, or a copy.
    """

    def __init__(self, weights: MatrixWeights, is_copied: bool = False) -> None:
        view = _plain(weights).t()
        self._values = view.contiguous() if is_copied else view  # [I, O]

    @property
    def bytes(self) -> int:
        return self._values.nbytes

    def __call__(self, x: Tensor, added: Tensor | None) -> Tensor:
        return torch.mm(x, self._values) if added is None else torch.addmm(added, x, self._values)

    def in_float32(self, x: Tensor) -> Tensor:  # [T, I] -> [T, O]
        """Return x W^T, with sums in float32. torch can do this on GPUs only."""
        return torch.mm(x, self._values, out_dtype=torch.float32)

    def weights(self) -> MatrixWeights:
        return PlainWeights(self._values.t().contiguous())


class OneDnn:
    """The kernel of oneDNN, with its own layout for a number of rows, or with the plain matrix."""

    def __init__(self, weights: MatrixWeights, rows: int | None) -> None:
        values = _plain(weights).contiguous()
        self._rows = rows
        reorder = torch.ops.mkldnn._reorder_linear_weight
        self._values: Tensor = values if rows is None else reorder(values, rows)
        self.bytes = values.nbytes

    def __call__(self, x: Tensor, added: Tensor | None) -> Tensor:
        assert _ONEDNN is not None
        bias = added if added is not None and added.ndim == 1 else None
        product: Tensor = _ONEDNN.default(x, self._values, bias, "none", [], "")
        return product if added is None or bias is not None else product.add_(added)

    def weights(self) -> MatrixWeights:
        return PlainWeights(self._values if self._rows is None else self._values.to_dense())


class Panels:
    """The kernel for few rows that is compiled on this machine.

    If the weights are in bfloat16, x may also be in float32. If the weights are in int8 or int4 and
    the processor multiplies bytes, the kernel rounds x to 16-bit integers in groups.
    """

    def __init__(self, weights: MatrixWeights) -> None:
        registers = kernel.registers()
        assert registers is not None
        shape = weights.shape
        form = PanelForm(shape.form)
        self._layout = PanelLayout(form, registers)
        self._inputs = weights.inputs if isinstance(weights, Int4Weights) else shape.inputs
        values, scales = self._layout.pack(weights)
        inputs = self._layout.inputs_read(weights)
        self._matrix = kernel.KernelMatrix(form, values, scales, inputs, shape.outputs)

    @property
    def bytes(self) -> int:
        scales = self._matrix.scales
        return self._matrix.weights.nbytes + (0 if scales is None else scales.nbytes)

    def prepare(self, rows: torch.dtype) -> None:
        """Compile the kernel for x of this dtype, and for x in float32, which programs use."""
        for dtype in {rows, torch.float32}:
            self._matrix.prepare(dtype)

    def __call__(self, x: Tensor, added: Tensor | None) -> Tensor:
        missing = self._matrix.inputs - self._inputs
        return self._matrix(F.pad(x, (0, missing)) if missing else x, added)

    def step(self, x: Tensor, y: Tensor, added: Tensor | None) -> ProgramStep | None:
        """Return this call as a step of a program, or None if x needs padding."""
        if self._inputs != self._matrix.inputs:
            return None
        return ProgramStep(*self._matrix.step(x, y, added), keeps=(self, added))

    def weights(self) -> MatrixWeights:
        matrix = self._matrix
        return self._layout.unpack(matrix.weights, matrix.scales, matrix.outputs, self._inputs)


class TorchInt8:
    """torch's own kernel for int8 weights. It needs x in bfloat16.

    On a GPU it reads one byte per weight. If the matrix were converted to bfloat16 first, five
    bytes per weight would be moved: one is read, two are written, and these two are read again.
    """

    def __init__(self, weights: MatrixWeights) -> None:
        assert isinstance(weights, Int8Weights)
        self._inputs = weights.steps.shape[1]
        is_on_cpu = weights.steps.device.type == "cpu"
        self._padding = -self._inputs % _INT8_INPUTS if is_on_cpu else 0
        # If the kernel needs no padding, keep the same tensor that `Widened` uses instead of a
        # copy.
        steps = weights.steps
        self._steps = F.pad(steps, (0, self._padding)) if self._padding else steps
        self._scale = weights.scale
        self.bytes = self._steps.nbytes + self._scale.nbytes

    def __call__(self, x: Tensor, added: Tensor | None) -> Tensor:
        assert _INT8 is not None
        rounded = F.pad(x.bfloat16(), (0, self._padding)) if self._padding else x.bfloat16()
        product: Tensor = _INT8(rounded, self._steps, self._scale).to(x.dtype)
        return product if added is None else product.add_(added)

    def weights(self) -> MatrixWeights:
        return Int8Weights(self._steps[:, : self._inputs], self._scale)


class Widened:
    """The kernel `torch.mm` with int8 weights, which are converted to x's dtype at every call."""

    def __init__(self, weights: MatrixWeights) -> None:
        assert isinstance(weights, Int8Weights)
        self._weights = weights

    @property
    def bytes(self) -> int:
        return self._weights.shape.bytes

    def __call__(self, x: Tensor, added: Tensor | None) -> Tensor:
        wide = self._weights.steps.t().to(x.dtype)
        product = torch.mm(x, wide).mul_(self._weights.scale.to(x.dtype))
        return product if added is None else product.add_(added)

    def weights(self) -> MatrixWeights:
        return self._weights


class PackedInt4:
    """A kernel of torch for int4 weights. It reads half a byte per weight and x in bfloat16."""

    def __init__(
        self,
        weights: MatrixWeights,
        multiple: int,  # the number by which the number of outputs must be divisible
        pack: Callable[[Tensor], Tensor],
        multiply: Callable[[Tensor, Tensor, int, Tensor], Tensor],
    ) -> None:
        assert isinstance(weights, Int4Weights)
        self._outputs, self._inputs = len(weights.steps), weights.inputs
        self._padding = weights.steps.shape[1] - weights.inputs
        missing = -self._outputs % multiple
        self._multiply = multiply
        self._steps = pack(F.pad(weights.steps, (0, 0, 0, missing)))
        both = F.pad(torch.stack((weights.scale, weights.middle), -1), (0, 0, 0, 0, 0, missing))
        self._groups = both.transpose(0, 1).contiguous()  # [N, O, 2]
        self.bytes = int(self._steps.nbytes + self._groups.nbytes)

    def __call__(self, x: Tensor, added: Tensor | None) -> Tensor:
        rounded = F.pad(x.bfloat16(), (0, self._padding)) if self._padding else x.bfloat16()
        product = self._product(rounded, self._groups).to(x.dtype)
        return product if added is None else product.add_(added)

    def weights(self) -> MatrixWeights:
        scale, middle = self._groups[:, : self._outputs].permute(2, 1, 0).contiguous().unbind()
        return Int4Weights(steps_shown_by(self._product, self._groups), scale, middle, self._inputs)

    def _product(self, x: Tensor, groups: Tensor) -> Tensor:
        product = self._multiply(x.contiguous(), self._steps, GROUP, groups)
        return product[:, : self._outputs]


class TorchInt4(PackedInt4):
    """torch's own kernel for int4 weights on a CPU."""

    def __init__(self, weights: MatrixWeights) -> None:
        assert _INT4 is not None and _INT4_PACK is not None
        pack = _INT4_PACK
        super().__init__(weights, _INT4_OUTPUTS, lambda steps: pack(steps.int(), 1), _INT4)


class GpuInt4(PackedInt4):
    """torch's own kernel for int4 weights on a GPU."""

    def __init__(self, weights: MatrixWeights) -> None:
        assert _GPU_INT4 is not None and _GPU_INT4_PACK is not None
        pack = _GPU_INT4_PACK

        def packed(steps: Tensor) -> Tensor:
            found: Tensor = pack(in_pairs(steps), inner_tiles(steps.shape[1]))
            return found

        super().__init__(weights, _GPU_INT4_OUTPUTS, packed, _GPU_INT4)


def steps_shown_by(product: Callable[[Tensor, Tensor], Tensor], groups: Tensor) -> Tensor:
    """Return the 4-bit steps of a packed matrix. groups [N, O, 2] -> [O, N * GROUP] uint8

    The steps are found by multiplying the matrix with a `scale` of 1 and a `middle` of 0.
    """
    inputs = len(groups) * GROUP
    one_each = torch.eye(inputs, dtype=torch.bfloat16, device=groups.device)
    counted = torch.zeros_like(groups)
    counted[..., 0] = 1
    return product(one_each, counted).t().float().add_(MIDDLE).to(torch.uint8).contiguous()


def in_pairs(steps: Tensor) -> Tensor:  # [O, I] uint8 -> [O, I / 2] uint8
    """Pack two 4-bit steps into a byte, as the GPU's packing function expects.

    The step of the even input is the upper half.

    >>> in_pairs(torch.tensor([[1, 2, 15, 0]], dtype=torch.uint8)).tolist()
    [[18, 240]]
    """
    return (steps[:, ::2] << 4) | steps[:, 1::2]


def inner_tiles(inputs: int) -> int:
    """Return the largest number of input tiles that the GPU's kernel can take at once.

    >>> [inner_tiles(inputs) for inputs in (4096, 576, 288)]
    [8, 4, 2]
    """
    return next(tiles for tiles in (8, 4, 2) if inputs % (tiles * _GPU_INT4_INPUTS) == 0)


class Narrowed:
    """A kernel in bfloat16 that takes and returns float32."""

    def __init__(self, held: Held) -> None:
        self._held = held

    @property
    def bytes(self) -> int:
        return self._held.bytes

    def __call__(self, x: Tensor, added: Tensor | None) -> Tensor:
        product = self._held(x.bfloat16(), None).float()
        return product if added is None else product.add_(added)

    def weights(self) -> MatrixWeights:
        return self._held.weights()


def _plain(weights: MatrixWeights) -> Tensor:
    assert isinstance(weights, PlainWeights)
    return weights.values


_FLOATS = ("float32", "bfloat16", "float16")


def _is_plain(shape: MatrixShape, rows: torch.dtype) -> bool:
    return shape.form in _FLOATS


def _is_plain_on_cpu(shape: MatrixShape, rows: torch.dtype) -> bool:
    return shape.form in _FLOATS and shape.device == "cpu"


def _has_onednn(shape: MatrixShape, rows: torch.dtype) -> bool:
    return shape.form in _FLOATS and has_onednn(shape.device, getattr(torch, shape.form))


def has_onednn(device: str, dtype: torch.dtype) -> bool:
    """Return whether oneDNN multiplies matrices of this dtype on the device at full speed."""
    if device != "cpu" or not torch._C._has_mkldnn or _ONEDNN is None:
        return False
    if dtype is torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return dtype is torch.float32


def _has_kernel(shape: MatrixShape, rows: torch.dtype) -> bool:
    if shape.device != "cpu" or shape.form not in {each.value for each in PanelForm}:
        return False
    is_float32, form = rows is torch.float32, PanelForm(shape.form)
    is_widened = form is PanelForm.FLOAT32 and not is_float32
    return not is_widened and kernel.has_kernel(form, rows, shape.inputs)


def _is_int8(shape: MatrixShape, rows: torch.dtype) -> bool:
    return shape.form == "int8"


def _has_torch_int8(shape: MatrixShape, rows: torch.dtype) -> bool:
    is_int8 = shape.form == "int8" and _INT8 is not None
    return is_int8 and (shape.device == "cpu" or _runs_on("_weight_int8pack_mm", shape.device))


def _has_gpu_int4(shape: MatrixShape, rows: torch.dtype) -> bool:
    is_here = _GPU_INT4 is not None and _GPU_INT4_PACK is not None
    is_int4 = shape.form == "int4" and is_here and shape.device != "cpu"
    return is_int4 and _runs_on("_weight_int4pack_mm", shape.device)


def _runs_on(operation: str, device: str) -> bool:
    """Return whether this build of torch has the operation for a type of device."""
    key = _DISPATCH_KEYS.get(device)
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return key is not None and bool(has_kernel(f"aten::{operation}", key))


def _has_torch_int4(shape: MatrixShape, rows: torch.dtype) -> bool:
    is_here = _INT4 is not None and _INT4_PACK is not None
    return shape.form == "int4" and shape.device == "cpu" and is_here


def _on_packed(rows: int | None) -> Callable[[MatrixWeights], Held]:
    return lambda weights: OneDnn(weights, rows)


def _transposed(weights: MatrixWeights) -> Held:
    return Multiplied(weights, is_copied=True)


CANDIDATES: tuple[KernelCandidate, ...] = (
    KernelCandidate("compiled", "panels", _has_kernel, Panels),
    *(
        KernelCandidate(f"onednn-{rows}", f"onednn-{rows}", _has_onednn, _on_packed(rows))
        for rows in _PACKING_ROWS
    ),
    KernelCandidate("onednn", PLAIN, _has_onednn, _on_packed(None)),
    KernelCandidate("linear", PLAIN, _is_plain_on_cpu, Linear),
    KernelCandidate("mm", PLAIN, _is_plain, Multiplied),
    KernelCandidate("mm-transposed", "transposed", _is_plain_on_cpu, _transposed),
    KernelCandidate("torch-int8", "int8", _has_torch_int8, TorchInt8),
    KernelCandidate("widened-int8", "int8", _is_int8, Widened),
    KernelCandidate("torch-int4", "int4", _has_torch_int4, TorchInt4),
    KernelCandidate("gpu-int4", "gpu-int4", _has_gpu_int4, GpuInt4),
)
BY_NAME = {each.name: each for each in CANDIDATES}


def offered(
    shape: MatrixShape, rows: torch.dtype, only_plain: bool = False
) -> tuple[KernelCandidate, ...]:
    """Return the candidates that this machine can use for a matrix and a dtype of x.

    With `only_plain`, these are the candidates that need no copy of a plain matrix. A matrix
    without such candidates has no plain layout, so all its candidates are returned.
    """
    found = tuple(each for each in CANDIDATES if each.fits(shape, rows))
    plain = tuple(each for each in found if each.layout == PLAIN)
    return plain if only_plain and plain else found
