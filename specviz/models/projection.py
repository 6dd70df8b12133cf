"""One weight matrix, held in the layout that its device multiplies fastest.

Knows nothing of models. On CPU the vendor library that `F.linear` calls slows down sharply from
one row to a few, which is what verification of a draft needs; oneDNN with weights packed once does
not. Letters: T rows, I inputs, O outputs.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor

_ONEDNN = getattr(torch.ops.mkldnn, "_linear_pointwise", None)  # absent from some builds of torch
PACKING_ROWS = 16  # the row count that the packed layout is chosen for
SMALL_BYTES = 1 << 20  # below this, at one row, oneDNN's cost per call outweighs its layout


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
        if not _has_onednn(weight):
            self._plain = weight.t()
            return
        self._packed = _pack(weight) if may_copy else weight
        if weight.dtype is torch.float32 and weight.nbytes < SMALL_BYTES:
            self._plain = weight.t().contiguous()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as the plain matrix: the packed layout has no bytes of its own to show."""
        may_copy = self._packed is None or self._packed.is_mkldnn
        return Projection, (self.weight, self.bias, may_copy)

    @property
    def weight(self) -> Tensor:  # [O, I]
        if self._packed is None:
            assert self._plain is not None
            return self._plain.t()
        return self._packed.to_dense() if self._packed.is_mkldnn else self._packed

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


def _has_onednn(weight: Tensor) -> bool:
    if weight.device.type != "cpu" or not torch._C._has_mkldnn or _ONEDNN is None:
        return False
    if weight.dtype is torch.bfloat16:
        return compact_dtype(weight.device) is torch.bfloat16
    return weight.dtype is torch.float32


def compact_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the device multiplies it at full speed, else float32."""
    if device.type != "cpu":
        return torch.bfloat16
    is_fast = torch._C._has_mkldnn and torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return torch.bfloat16 if is_fast else torch.float32
