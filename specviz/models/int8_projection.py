"""One weight matrix in a quarter of its float32 memory: whole numbers and a scale per output.

Knows nothing of models. Letters: T rows, I inputs, O outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specviz.models.projection import compact_dtype

LEVELS = 127  # symmetric: -127 … 127
KERNEL_ROWS = 16  # with more rows, widening the whole matrix first is faster on CPU
KERNEL_INPUTS = 32  # the CPU kernel reads past the end of rows that are no multiple of this


class Int8Projection:
    """x -> x W^T + b, for W [O, I] rounded to int8 and b [O].

    Only weights are rounded to int8. On CPU the kernel takes x in bfloat16; each row's product is
    the same whatever rows stand beside it, which a scale taken from all rows would not give.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        wide = weight.float()
        # the scale is rounded before it is used: int8 steps then absorb that error too
        scale = (wide.abs().amax(1) / LEVELS).clamp_min(1e-30).bfloat16()  # [O]
        steps = (wide / scale.float()[:, None]).round_().clamp_(-LEVELS, LEVELS)
        self._weight = steps.to(torch.int8)
        self._scale = scale
        self.bias = bias
        self._kernel_rows = 0 if weight.shape[1] % KERNEL_INPUTS else KERNEL_ROWS
        self._wide = compact_dtype(weight.device)

    @property
    def weight(self) -> Tensor:  # [O, I] float32
        return self._weight.float().mul_(self._scale.float()[:, None])

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
        if x.shape[0] > self._kernel_rows:
            return self._widened(rounded.to(self._wide)).to(x.dtype)
        return torch._weight_int8pack_mm(rounded, self._weight, self._scale).to(x.dtype)

    def _widened(self, x: Tensor) -> Tensor:
        return torch.mm(x, self._weight.t().to(x.dtype)).mul_(self._scale.to(x.dtype))
