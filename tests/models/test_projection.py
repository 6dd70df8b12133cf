"""A projection equals the matrix multiplication in every memory layout."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from specviz.models.matrix_kernels.choice import SMALL_BYTES, TINY_BYTES
from specviz.models.matrix_kernels.projection import Projection

TINY = (48, 32)
SMALL = (96, TINY_BYTES // 4 // 96 + 32)
LARGE = (1024, SMALL_BYTES // 4 // 1024 + 32)


@pytest.mark.parametrize("rows", [1, 2, 7, 40])
@pytest.mark.parametrize("shape", [TINY, SMALL, LARGE], ids=["tiny", "small", "large"])
@pytest.mark.parametrize("may_copy", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_projection_equals_linear(
    rows: int, shape: tuple[int, int], may_copy: bool, has_bias: bool
) -> None:
    weight, x = torch.randn(shape), torch.randn(rows, shape[1])
    bias = torch.randn(shape[0]) if has_bias else None
    residual = torch.randn(rows, shape[0])
    projection = Projection(weight.clone(), bias, is_shared=not may_copy, may_copy=may_copy)
    expected = F.linear(x, weight, bias)
    torch.testing.assert_close(projection(x), expected, rtol=1e-4, atol=1e-3)
    sum_expected = residual + expected
    torch.testing.assert_close(projection.add_to(residual, x), sum_expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 6])
def test_half_precision_equals_linear(dtype: torch.dtype, rows: int) -> None:
    weight, x = torch.randn(48, 32, dtype=dtype), torch.randn(rows, 32, dtype=dtype)
    product = Projection(weight)(x)
    assert product.dtype is dtype
    torch.testing.assert_close(product, F.linear(x, weight), rtol=2e-2, atol=1e-1)
