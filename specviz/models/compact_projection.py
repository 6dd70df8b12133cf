"""One weight matrix held in bfloat16 between float32 neighbours.

With few rows a product takes as long as its matrix takes to be read. Where only a guess depends on
it, half the bytes are as good. Knows nothing of models. Letters: T rows, I inputs, O outputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specviz.models.projection import Product, Projection, compact_dtype

LEAST_BYTES = 256 << 10  # a smaller matrix is cheaper to read than its input to convert


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
    is_wide = weight.dtype is torch.float32 and weight.nbytes >= LEAST_BYTES
    return CompactProjection(weight) if is_fast and is_wide else Projection(weight)
