"""A multiplication with int8 weights equals that with the rounded matrix, row by row."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from specviz.models.matrix_kernels.choice import MOST_ALIKE
from specviz.models.matrix_kernels.projection import int8
from tests.models.test_tree_forward import DEVICES

SHAPES = ((48, 32), (61, 33), (1, 7), (64, 48), (300, 768))


@pytest.mark.parametrize("rows", [1, 6, MOST_ALIKE, MOST_ALIKE + 1, 70])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_the_result_equals_linear_with_the_rounded_matrix(
    rows: int, shape: tuple[int, int], has_bias: bool, device: str
) -> None:
    weight, x = torch.randn(shape, device=device), torch.randn(rows, shape[1], device=device)
    bias = torch.randn(shape[0], device=device) if has_bias else None
    residual = torch.randn(rows, shape[0], device=device)
    projection = int8(weight, bias)
    expected = F.linear(x, projection.weight, bias)
    torch.testing.assert_close(projection(x), expected, rtol=2e-2, atol=2e-2 * shape[1] ** 0.5)
    torch.testing.assert_close(projection.add_to(residual, x), residual + projection(x))


def test_no_weight_is_off_by_more_than_half_a_step() -> None:
    """The test allows 0.51 of a step, because the step itself is rounded to bfloat16."""
    weight = torch.randn(48, 32)
    step = weight.abs().amax(1, keepdim=True) / 127
    assert ((int8(weight).weight - weight).abs() <= 0.51 * step).all()


def test_outputs_of_all_zero_weights_are_zero() -> None:
    assert torch.equal(int8(torch.zeros(3, 5))(torch.randn(2, 5)), torch.zeros(2, 3))


def test_a_row_does_not_depend_on_other_rows() -> None:
    projection, x = int8(torch.randn(48, 32)), torch.randn(MOST_ALIKE, 32)
    x[3] *= 1000
    alone = torch.cat([projection(row[None]) for row in x])
    assert torch.equal(projection(x), alone)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_dtype(dtype: torch.dtype) -> None:
    weight, x = torch.randn(48, 32, dtype=dtype), torch.randn(6, 32, dtype=dtype)
    product = int8(weight)(x)
    assert product.dtype is dtype
    torch.testing.assert_close(product, F.linear(x, weight), rtol=5e-2, atol=2e-1)
