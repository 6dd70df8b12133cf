"""A multiplication with int4 weights equals that with the rounded matrix, row by row."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.models.matrix_kernels.panel_form import GROUP, MIDDLE
from specviz.models.matrix_kernels.projection import int4
from specviz.models.matrix_kernels.weights import is_on_groups

SHAPES = ((48, 32), (61, 33), (1, 7), (64, 96))
ROWS = 40


@pytest.mark.parametrize("rows", [1, 6, 17])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("has_bias", [True, False])
def test_the_result_equals_linear_with_the_rounded_matrix(
    rows: int, shape: tuple[int, int], has_bias: bool
) -> None:
    weight, x = torch.randn(shape), torch.randn(rows, shape[1])
    bias = torch.randn(shape[0]) if has_bias else None
    residual = torch.randn(rows, shape[0])
    projection = int4(weight, bias)
    assert projection.weight.shape == weight.shape
    expected = F.linear(x, projection.weight, bias)
    torch.testing.assert_close(projection(x), expected, rtol=2e-2, atol=2e-2 * shape[1] ** 0.5)
    torch.testing.assert_close(projection.add_to(residual, x), residual + projection(x))


def written_in_groups(outputs: int, groups: int) -> tuple[Tensor, Tensor]:
    """Return weights as in a Q4_1 file, which are step * scale + minimum, and their scales."""
    steps = torch.randint(0, 16, (outputs, groups, GROUP)).float()
    steps[..., :2] = torch.tensor([0.0, 15.0])
    scale = (torch.rand(outputs, groups, 1) * 0.1 + 0.01).half().float()
    least = (scale * (torch.randn(outputs, groups, 1) * 0.5 - MIDDLE)).half().float()
    return (steps * scale + least).flatten(1), scale


def test_weights_that_were_4_bit_are_recovered() -> None:
    """The recovered int4 weights differ from the original ones only by rounding to bfloat16.

    The scale and the middle value of each group of weights are stored in bfloat16.
    """
    weight, scale = written_in_groups(48, 3)
    assert is_on_groups(weight) and is_on_groups(weight.bfloat16())
    found = int4(weight).weight
    error = (found - weight).abs().unflatten(1, (-1, GROUP))
    assert (error / scale).max() < 0.1  # an error of one step would be 1


def test_other_weights_are_off_by_at_most_half_a_step_and_bfloat16_rounding() -> None:
    weight = torch.randn(48, 64)
    assert not is_on_groups(weight)
    groups = weight.unflatten(1, (-1, GROUP))
    step = (groups.amax(-1, keepdim=True) - groups.amin(-1, keepdim=True)) / 15
    error = (int4(weight).weight - weight).abs().unflatten(1, (-1, GROUP))
    assert (error <= 0.5 * step + 2**-7 * groups.abs().amax(-1, keepdim=True)).all()


def test_outputs_of_all_zero_weights_are_zero() -> None:
    assert torch.equal(int4(torch.zeros(3, 5))(torch.randn(2, 5)), torch.zeros(2, 3))


def test_a_row_does_not_depend_on_other_rows() -> None:
    projection, x = int4(torch.randn(48, 64)), torch.randn(ROWS, 64)
    x[3] *= 1000
    alone = torch.cat([projection(row[None]) for row in x])
    for rows in (2, 5, ROWS):
        assert torch.equal(projection(x[:rows]), alone[:rows])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_its_dtype(dtype: torch.dtype) -> None:
    weight, x = torch.randn(48, 32, dtype=dtype), torch.randn(6, 32, dtype=dtype)
    product = int4(weight)(x)
    assert product.dtype is dtype
