"""One weight matrix: in its device's fastest layout, in bfloat16, or in int8.

On CPU the vendor library that `F.linear` calls slows down sharply from one row to a few, which is
what verification of a draft needs; oneDNN with weights packed once does not. With few rows a
product takes as long as its matrix takes to be read, so a matrix of half the bytes is twice as
fast. Letters: T rows, I inputs, O outputs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None)  # absent from some builds of torch
PACKING_ROWS = 16  # the row count that the packed layout is chosen for
SMALL_BYTES = 1 << 20  # below this, at one row, oneDNN's cost per call outweighs its layout
TINY_BYTES = 32 << 10  # and below this at any number of rows
COMPACT_BYTES = 256 << 10  # a smaller matrix is cheaper to read than its input to convert
LEVELS = 127  # symmetric: -127 … 127
KERNEL_ROWS = 16  # with more rows, widening the whole matrix first is faster on CPU
KERNEL_INPUTS = 32  # the CPU kernel reads past the end of rows that are no multiple of this: padded


_is_float32 = ContextVar("is_float32", default=False)


class Product(Protocol):
    """x -> x W^T + b, for W [O, I] and b [O], however W is held."""

    @property
    def weight(self) -> Tensor:
        """W as a plain matrix, [O, I]; a copy where it is held in another layout."""
        ...

    @property
    def bias(self) -> Tensor | None: ...

    def __call__(self, x: Tensor) -> Tensor: ...  # [T, I] -> [T, O]

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:  # [T, O], [T, I] -> [T, O]
        """residual + x W^T + b."""
        ...


class Projection:
    """x -> x W^T + b, for W [O, I] and b [O].

    The packed layout is a copy: the caller gives its own `weight` up, or says that it stays in use
    (`may_copy` False), and then it is multiplied as it is.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, may_copy: bool = True) -> None:
        self.bias = bias
        self._packed: Tensor | None = None  # [O, I], in oneDNN's layout if it may be copied
        self._plain: Tensor | None = None  # [I, O]
        is_tiny = weight.dtype is torch.float32 and weight.nbytes < TINY_BYTES
        if is_tiny or not has_onednn(weight.device, weight.dtype):
            self._plain = weight.t()
            return
        self._packed = _pack(weight) if may_copy else weight
        if weight.dtype is torch.float32 and weight.nbytes < SMALL_BYTES:
            self._plain = weight.t().contiguous()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the plain matrix: the packed layout has no bytes of its own to show."""
        return Projection, (self.weight, self.bias, self._packed is None or self.is_packed)

    @property
    def is_packed(self) -> bool:
        """Whether it holds a copy of W in oneDNN's layout."""
        return self._packed is not None and self._packed.is_mkldnn

    @property
    def weight(self) -> Tensor:  # [O, I]
        if self._packed is None:
            assert self._plain is not None
            return self._plain.t()
        return self._packed.to_dense() if self.is_packed else self._packed

    def __call__(self, x: Tensor) -> Tensor:  # [T, I] -> [T, O]
        plain = self._plain_for(x)
        if plain is None:
            assert _ONEDNN is not None
            product: Tensor = _ONEDNN.default(x, self._packed, self.bias, "none", [], "")
            return product
        return torch.mm(x, plain) if self.bias is None else torch.addmm(self.bias, x, plain)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:  # [T, O], [T, I] -> [T, O]
        """residual + x W^T + b."""
        plain = self._plain_for(x)
        if plain is None or self.bias is not None:
            return self(x).add_(residual)
        return torch.addmm(residual, x, plain)

    def _plain_for(self, x: Tensor) -> Tensor | None:
        return self._plain if self._packed is None or x.shape[0] == 1 else None


def _pack(weight: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKING_ROWS)
    return packed


def has_onednn(device: torch.device, dtype: torch.dtype) -> bool:
    """Whether a matrix of that dtype is packed there."""
    if device.type != "cpu" or not torch._C._has_mkldnn or _ONEDNN is None:
        return False
    if dtype is torch.bfloat16:
        return compact_dtype(device) is torch.bfloat16
    return dtype is torch.float32


def compact_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the device multiplies it at full speed, else float32."""
    if _is_float32.get():
        return torch.float32
    if device.type != "cpu":
        return torch.bfloat16
    is_fast = torch._C._has_mkldnn and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.bfloat16 if is_fast else torch.float32


@contextmanager
def in_float32() -> Iterator[None]:
    """What is loaded meanwhile multiplies in float32 throughout, as an engine asked for it does."""
    token = _is_float32.set(True)
    try:
        yield
    finally:
        _is_float32.reset(token)


class CompactProjection:
    """x -> x W^T, for W [O, I], rounded to bfloat16; x and the result are float32."""

    bias = None

    def __init__(self, weight: Tensor) -> None:
        self._product = Projection(weight.bfloat16())

    @property
    def weight(self) -> Tensor:  # [O, I] bfloat16
        return self._product.weight

    def __call__(self, x: Tensor) -> Tensor:  # [T, I] -> [T, O]
        return self._product(x.bfloat16()).float()

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:  # [T, O], [T, I] -> [T, O]
        """residual + x W^T."""
        return self(x).add_(residual)


def compact(weight: Tensor) -> Product:
    """W in bfloat16 where that is faster, else as it is. [O, I]"""
    is_fast = compact_dtype(weight.device) is torch.bfloat16 and weight.device.type == "cpu"
    is_wide = weight.dtype is torch.float32 and weight.nbytes >= COMPACT_BYTES
    return CompactProjection(weight) if is_fast and is_wide else Projection(weight)


class Int8Projection:
    """x -> x W^T + b, for W [O, I] rounded to int8 and b [O].

    Only weights are rounded to int8. On CPU the kernel takes x in bfloat16, and up to KERNEL_ROWS
    rows each row's product is the same to the bit whatever rows stand beside it, which a scale
    taken from all rows would not give.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        wide = weight.float()
        # the scale is rounded before it is used: int8 steps then absorb that error too
        scale = (wide.abs().amax(1) / LEVELS).clamp_min(1e-30).bfloat16()  # [O]
        steps = (wide / scale.float()[:, None]).round_().clamp_(-LEVELS, LEVELS)
        self._padding = -weight.shape[1] % KERNEL_INPUTS if weight.device.type == "cpu" else 0
        self._weight = F.pad(steps.to(torch.int8), (0, self._padding))  # [O, I + padding]
        self._scale = scale
        self.bias = bias
        self._wide = compact_dtype(weight.device)

    @property
    def weight(self) -> Tensor:  # [O, I] float32
        inputs = self._weight.shape[1] - self._padding
        return self._weight[:, :inputs].float().mul_(self._scale.float()[:, None])

    @property
    def bytes(self) -> int:
        """Memory of the matrix; the bias is the original's."""
        return self._weight.nbytes + self._scale.nbytes

    def __call__(self, x: Tensor) -> Tensor:  # [T, I] -> [T, O]
        product = self._on_cpu(x) if x.device.type == "cpu" else self._widened(x)
        return product if self.bias is None else product.add_(self.bias)

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:  # [T, O], [T, I] -> [T, O]
        """residual + x W^T + b."""
        return self(x).add_(residual)

    def _on_cpu(self, x: Tensor) -> Tensor:
        rounded = x.bfloat16()
        if self._padding:
            rounded = F.pad(rounded, (0, self._padding))
        if x.shape[0] > KERNEL_ROWS:
            return self._widened(rounded.to(self._wide)).to(x.dtype)
        return torch._weight_int8pack_mm(rounded, self._weight, self._scale).to(x.dtype)

    def _widened(self, x: Tensor) -> Tensor:
        return torch.mm(x, self._weight.t().to(x.dtype)).mul_(self._scale.to(x.dtype))
