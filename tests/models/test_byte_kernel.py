"""The kernel that rounds its input to integers adds the products of the rounded input exactly.

In shapes, T is the number of rows, I the number of inputs and O the number of outputs.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from specviz.models.matrix_kernels import kernel
from specviz.models.matrix_kernels.kernel_candidates import Panels
from specviz.models.matrix_kernels.kernel_code import source
from specviz.models.matrix_kernels.panel_form import GROUP, PanelForm, Registers, RowType
from specviz.models.matrix_kernels.panel_layout import PanelLayout
from specviz.models.matrix_kernels.projection import Projection
from specviz.models.matrix_kernels.rounding_code import LEAST, LEVELS
from specviz.models.matrix_kernels.weights import Int4Weights, Int8Weights, MatrixWeights

PLAIN_AVX512 = {"avx512f": True, "avx512bw": True, "avx512vl": True, "avx2": True, "fma": True}
WITH_BYTES = Registers.of("x86_64", PLAIN_AVX512 | {"avx512vnni": True})
ROUNDED: dict[str, Callable[[Tensor], MatrixWeights]] = {
    "int8": Int8Weights.of,
    "int4": Int4Weights.of,
}
# (O, I): one whole group of inputs; an odd number of outputs and a short last group; one group that
# is not full; an odd number of groups; many outputs
SHAPES = [(48, 32), (61, 33), (1, 7), (77, 160), (300, 576)]


def multiplies_bytes() -> bool:
    tile = kernel.registers()
    return tile is not None and tile.has_byte_products


needs_bytes = pytest.mark.skipif(not multiplies_bytes(), reason="no products of bytes here")


def rounded_rows(x: Tensor) -> Tensor:  # [T, I] -> [T, I] float64
    """Round rows as the kernel does: a step is the group's largest value divided by LEVELS."""
    groups = F.pad(x.float(), (0, -x.shape[1] % GROUP)).view(len(x), -1, GROUP)
    largest = groups.abs().amax(-1, keepdim=True)
    # `LEVELS / largest` would be the product of LEVELS and a reciprocal, which rounds twice.
    ratio = torch.full_like(largest, LEVELS).div(largest)
    factor = torch.where(largest >= LEAST, ratio, torch.zeros(()))
    steps = (groups * factor).round()
    rounded: Tensor = steps.double() * (largest / LEVELS).double()
    return rounded.flatten(1)[:, : x.shape[1]]


def whole_rows(rows: int, inputs: int) -> Tensor:
    """Return rows of integers that the rounding does not change.

    The largest number of each group is LEVELS, so a step is 1. The other numbers need one byte or
    two.
    """
    x = torch.randint(-200, 201, (rows, inputs)).float()
    x[:, ::GROUP] = LEVELS
    return x


def whole_weights(form: str, outputs: int, inputs: int) -> MatrixWeights:
    """Return weights whose products with `whole_rows` are exact in float32, in any order."""
    if form == "int8":
        steps = torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8)
        steps[:, ::GROUP] = torch.randint(-1, 2, steps[:, ::GROUP].shape, dtype=torch.int8)
        return Int8Weights(steps, torch.full((outputs,), 0.25, dtype=torch.bfloat16))
    groups = -(-inputs // GROUP)
    steps = torch.randint(0, 16, (outputs, groups * GROUP), dtype=torch.uint8)
    steps[:, ::GROUP] = torch.randint(7, 10, steps[:, ::GROUP].shape, dtype=torch.uint8)
    scale = 2.0 ** torch.randint(0, 3, (outputs, groups))
    middle = torch.randint(-4, 5, (outputs, groups)).float()
    return Int4Weights(steps, scale.bfloat16(), middle.bfloat16(), inputs)


@needs_bytes
@pytest.mark.parametrize("form", ROUNDED)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("rows", range(1, 18))
def test_products_of_integers_are_exact(form: str, shape: tuple[int, int], rows: int) -> None:
    weights, x = whole_weights(form, *shape), whole_rows(rows, shape[1])
    expected = F.linear(x.double(), weights.dense().double())
    assert torch.equal(Panels(weights)(x, None).double(), expected)


@needs_bytes
@pytest.mark.parametrize("form", ROUNDED)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_other_rows_are_rounded_in_groups(
    form: str, shape: tuple[int, int], dtype: torch.dtype
) -> None:
    weights, x = ROUNDED[form](torch.randn(shape)), torch.randn(20, shape[1]).to(dtype)
    x[3] *= 1e-20
    x[4, ::2] *= 1000
    read, dense = rounded_rows(x), weights.dense().double()
    error = (Panels(weights)(x, None).double() - F.linear(read, dense)).abs()
    sizes = F.linear(read.abs(), dense.abs())
    assert (error / sizes).max() < (1e-6 if dtype is torch.float32 else 2**-8)


@needs_bytes
@pytest.mark.parametrize("form", ROUNDED)
def test_rounding_x_changes_the_result_by_less_than_rounding_it_to_bfloat16(form: str) -> None:
    weights, x = ROUNDED[form](torch.randn(300, 576)), torch.randn(50, 576)
    expected = F.linear(x, weights.dense())
    error = (Panels(weights)(x, None) - expected).norm()
    assert error < 1e-4 * expected.norm()
    assert error < 0.1 * (F.linear(x.bfloat16().float(), weights.dense()) - expected).norm()


@needs_bytes
@pytest.mark.parametrize("form", ROUNDED)
def test_a_row_has_the_same_bits_with_any_other_rows(form: str) -> None:
    """Rows are so long here that a thread rounds only the 8 rows of one tile at once."""
    weights, x = ROUNDED[form](torch.randn(40, 8192)), torch.randn(40, 8192)
    product = Panels(weights)
    alone = torch.cat([product(row[None], None) for row in x])
    for rows in (*range(2, 18), 31, 32, 33, 40):
        assert torch.equal(product(x[:rows], None), alone[:rows])


@needs_bytes
@pytest.mark.parametrize("form", ROUNDED)
def test_rows_of_zeros_give_only_the_added_values(form: str) -> None:
    added = torch.randn(3, 61)
    found = Panels(ROUNDED[form](torch.randn(61, 33)))(torch.zeros(3, 33), added)
    assert torch.equal(found, added)


@needs_bytes
@pytest.mark.parametrize("form", ROUNDED)
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("at", [0, 31, 32])
def test_a_row_with_an_undefined_number_spoils_no_other_row(
    form: str, value: float, at: int
) -> None:
    product, x = Panels(ROUNDED[form](torch.randn(61, 33))), torch.randn(6, 33)
    expected = product(x, None)
    x[2, at] = value
    found = product(x, None)
    assert not found[2].isfinite().any()
    others = [0, 1, 3, 4, 5]
    assert torch.equal(found[others], expected[others])


@needs_bytes
@pytest.mark.parametrize("form", ROUNDED)
def test_numbers_too_small_to_divide_by_count_as_zeros(form: str) -> None:
    x = torch.full((2, 64), 1e-38)
    x[1] = 1e-45
    found = Panels(ROUNDED[form](torch.randn(61, 64)))(x, None)
    assert torch.equal(found, torch.zeros(2, 61))


@needs_bytes
@pytest.mark.parametrize("form", ROUNDED)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_weights_come_back(form: str, shape: tuple[int, int]) -> None:
    weights = ROUNDED[form](torch.randn(shape))
    projection = Projection(weights, rows=torch.float32)
    x = torch.randn(3, shape[1])
    product = projection(x)
    for each in (Panels(weights).weights(), pickle.loads(pickle.dumps(projection)).weights()):
        assert_same(each, weights)
    assert torch.equal(pickle.loads(pickle.dumps(projection))(x), product)


def assert_same(found: MatrixWeights, expected: MatrixWeights) -> None:
    assert type(found) is type(expected) and found.shape == expected.shape
    assert isinstance(expected, Int8Weights | Int4Weights)
    for name in expected.__slots__:
        values = getattr(found, name), getattr(expected, name)
        if isinstance(values[1], Tensor):
            assert values[0].dtype is values[1].dtype and torch.equal(*values)
        else:
            assert values[0] == values[1]


@pytest.mark.parametrize("form", ROUNDED)
@pytest.mark.parametrize("shape", SHAPES)
def test_any_machine_can_write_and_read_the_layout(form: str, shape: tuple[int, int]) -> None:
    assert WITH_BYTES is not None
    weights, layout = ROUNDED[form](torch.randn(shape)), PanelLayout(PanelForm(form), WITH_BYTES)
    values, scales = layout.pack(weights)
    assert_same(layout.unpack(values, scales, *shape), weights)


def test_an_int4_word_has_eight_inputs_in_two_halves() -> None:
    """A word has four bytes: their lower halves are inputs 0 to 3, their upper halves 4 to 7."""
    assert WITH_BYTES is not None
    steps = torch.zeros(1, GROUP, dtype=torch.uint8)
    steps[0, :8] = torch.arange(1, 9)
    ones = torch.ones(1, 1, dtype=torch.bfloat16)
    values, _ = PanelLayout(PanelForm.INT4, WITH_BYTES).pack(Int4Weights(steps, ones, ones, GROUP))
    assert f"{int(values[0, 0, 0, 0]) & 0xFFFFFFFF:08x}" == "84736251"
    # The next word has the group's middle value and its scale, both 1.0 in bfloat16.
    assert f"{int(values[0, 0, 4, 0]):08x}" == "3f803f80"


@pytest.mark.parametrize("form", ROUNDED)
def test_without_products_of_bytes_x_is_not_rounded(
    form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kernel.registers() is None:
        pytest.skip("no kernel on this machine")
    tile = Registers.of("x86_64", PLAIN_AVX512) if multiplies_bytes() else kernel.registers()
    assert tile is not None and not tile.multiplies_bytes(PanelForm(form))
    monkeypatch.setattr(kernel, "registers", lambda: tile)
    weights, x = ROUNDED[form](torch.randn(61, 64)), torch.randn(5, 64)
    product = Panels(weights)
    expected = F.linear(x, weights.dense())
    torch.testing.assert_close(product(x, None), expected, rtol=1e-4, atol=1e-3)
    assert product.bytes >= tile.panel * -(-61 // tile.panel) * 64 // (2 if form == "int4" else 1)
    assert_same(product.weights(), weights)
    assert not kernel.has_kernel(PanelForm(form), torch.float32, 33)


@pytest.mark.parametrize("form", ROUNDED)
@pytest.mark.parametrize("rows", RowType)
def test_a_tile_of_bytes_fits_into_the_registers(form: str, rows: RowType) -> None:
    """A row needs 3 registers, for a float32 sum and two integer sums; a weight group needs 8."""
    assert WITH_BYTES is not None
    assert 3 * WITH_BYTES.of_form(PanelForm(form)).rows + GROUP // 4 <= 32
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.parse_assembly(source(PanelForm(form), rows, WITH_BYTES, is_parallel=True)).verify()
