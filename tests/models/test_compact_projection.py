"""A projection may store its matrix in bfloat16, but its inputs and results are float32."""

import pytest
import torch

from specviz.models.matrix_kernels import projection
from specviz.models.matrix_kernels.projection import Projection, compact

CPU = torch.device("cpu")


@pytest.fixture
def fast(monkeypatch):
    """Simulate a processor that multiplies bfloat16 at full speed."""
    monkeypatch.setattr(projection, "compact_dtype", lambda device: torch.bfloat16)


@pytest.mark.parametrize("rows", [1, 4])
def test_the_result_equals_float32_with_the_rounded_matrix(rows):
    torch.manual_seed(0)
    weight, x, residual = torch.randn(6, 32), torch.randn(rows, 32), torch.randn(rows, 6)
    product = Projection(weight.bfloat16(), rows=torch.float32)
    expected = x.bfloat16().float() @ weight.bfloat16().float().t()
    assert product(x).dtype is torch.float32
    torch.testing.assert_close(product(x), expected, rtol=1e-2, atol=3e-2)
    added = product.add_to(residual, x)
    torch.testing.assert_close(added, residual + product(x))
    assert product.weight.nbytes == weight.nbytes // 2


def test_only_a_wide_float32_matrix_is_stored_in_bfloat16(fast):
    wide, small = torch.zeros(256, 256), torch.zeros(8, 8)
    assert compact(wide).shape.form == "bfloat16" and compact(wide).rows is torch.float32
    for other in (small, wide.double(), wide.bfloat16()):
        assert compact(other).shape.form == str(other.dtype).removeprefix("torch.")


def test_nothing_is_stored_in_bfloat16_if_the_processor_is_slow_with_it(monkeypatch):
    monkeypatch.setattr(projection, "compact_dtype", lambda device: torch.float32)
    assert compact(torch.zeros(256, 256)).shape.form == "float32"
