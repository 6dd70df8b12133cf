"""Products in bfloat16 between float32 neighbours."""

import pytest
import torch

from specviz.models.llama import projection
from specviz.models.llama.projection import CompactProjection, Projection, compact

CPU = torch.device("cpu")


@pytest.fixture
def fast(monkeypatch):
    """As on a processor that multiplies bfloat16; none is packed, which needs a real one."""
    monkeypatch.setattr(projection, "compact_dtype", lambda device: torch.bfloat16)
    monkeypatch.setattr(projection, "has_onednn", lambda device, dtype: False)


@pytest.mark.parametrize("rows", [1, 4])
def test_a_product_is_that_of_the_rounded_matrix_in_float32(rows):
    torch.manual_seed(0)
    weight, x, residual = torch.randn(6, 32), torch.randn(rows, 32), torch.randn(rows, 6)
    product = CompactProjection(weight)
    expected = x.bfloat16().float() @ weight.bfloat16().float().t()
    assert product(x).dtype is torch.float32
    torch.testing.assert_close(product(x), expected, rtol=1e-2, atol=3e-2)
    added = product.add_to(residual, x)
    torch.testing.assert_close(added, residual + product(x))
    assert product.weight.nbytes == weight.nbytes // 2


def test_only_a_wide_float32_matrix_is_made_compact(fast):
    wide, small = torch.zeros(256, 256), torch.zeros(8, 8)
    assert isinstance(compact(wide), CompactProjection)
    for other in (small, wide.double(), wide.bfloat16()):
        assert isinstance(compact(other), Projection)


def test_nothing_is_made_compact_where_the_processor_is_slow_at_it(monkeypatch):
    monkeypatch.setattr(projection, "compact_dtype", lambda device: torch.float32)
    assert isinstance(compact(torch.zeros(256, 256)), Projection)
