"""One weight matrix, held in the layout that its device multiplies fastest.

Knows nothing of models. On CPU the vendor library that `F.linear` calls slows down sharply from
one row to a few, which is what verification of a draft needs; oneDNN with weights packed once does
not. Letters: T rows, I inputs, O outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

PACKING_ROWS = 16  # the row count that the packed layout is chosen for
SMALL_BYTES = 1 << 20  # below this a call's own cost outweighs the layout, at one row


class Projection:
    """x -> x W^T + b, for W [O, I] and b [O].

    The packed layout is a copy: the caller gives its own `weight` up, or says that it stays in use
    (`may_copy` False), and then it is multiplied as it is.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None, may_copy: bool = True) -> None:
        self._bias = bias
        self._packed = _pack(weight) if may_copy else None
        self._plain: Tensor | None = None  # [I, O]
        if self._packed is None:
            self._plain = weight.t()
        elif weight.nbytes < SMALL_BYTES:
            self._plain = weight.t().contiguous()

    def __call__(self, x: Tensor) -> Tensor:  # [T, I] -> [T, O]
        if self._plain is not None and (self._packed is None or x.shape[0] == 1):
            if self._bias is None:
                return torch.mm(x, self._plain)
            return torch.addmm(self._bias, x, self._plain)
        product: Tensor = _multiply(x, self._packed, self._bias, "none", [], "")
        return product

    def add_to(self, residual: Tensor, x: Tensor) -> Tensor:  # [T, O], [T, I] -> [T, O]
        """residual + x W^T (+ b)."""
        if self._plain is not None and self._bias is None and x.shape[0] == 1:
            return torch.addmm(residual, x, self._plain)
        return self(x).add_(residual)


_multiply = torch.ops.mkldnn._linear_pointwise.default


def _pack(weight: Tensor) -> Tensor | None:
    """The weight in oneDNN's own layout, where the device and the dtype have one."""
    if weight.device.type != "cpu" or not torch._C._has_mkldnn:
        return None
    if weight.dtype is not torch.float32:
        return None
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), PACKING_ROWS)
    return packed
