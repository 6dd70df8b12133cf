"""The compiled kernel for few rows equals a matrix multiplication.

The result of a row does not depend on the other rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F

from specviz.models.llama.row_kernel_code import CachedType, head_source, row_source
from specviz.models.matrix_kernels import kernel
from specviz.models.matrix_kernels.kernel_candidates import Panels
from specviz.models.matrix_kernels.kernel_code import source
from specviz.models.matrix_kernels.panel_form import PanelForm, Registers, RowType
from specviz.models.matrix_kernels.weights import (
    Int4Weights,
    Int8Weights,
    MatrixWeights,
    PlainWeights,
)
from tests.models.test_byte_kernel import rounded_rows

FORMS: dict[str, Callable[[torch.Tensor], MatrixWeights]] = {
    "float32": PlainWeights,
    "bfloat16": lambda weight: PlainWeights(weight.bfloat16()),
    "int8": Int8Weights.of,
    "int4": Int4Weights.of,
}


def kernel_rounds(form: str) -> bool:
    """Return whether this machine's kernel for a form of weights rounds its inputs."""
    tile = kernel.registers()
    return tile is not None and tile.multiplies_bytes(PanelForm(form))


AVX512 = {"avx512f": True, "avx512bw": True, "avx512vl": True, "avx2": True, "fma": True}

needs_kernel = pytest.mark.skipif(kernel.registers() is None, reason="no kernel on this machine")


@needs_kernel
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(48, 32), (61, 64), (1, 32), (1000, 576)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [1, 2, 5, 8, 9, 40])
def test_the_kernel_equals_linear(
    form: str, shape: tuple[int, int], dtype: torch.dtype, rows: int
) -> None:
    if form == "float32" and dtype is torch.bfloat16:
        pytest.skip("a matrix is at most as wide as its rows")
    torch.manual_seed(0)
    weights, x = FORMS[form](torch.randn(shape)), torch.randn(rows, shape[1]).to(dtype)
    product = Panels(weights)
    loose = {} if dtype is torch.float32 else {"rtol": 2e-2, "atol": 2e-2}
    for added in (None, torch.randn(shape[0]), torch.randn(rows, shape[0])):
        typed = None if added is None else added.to(dtype)
        read = rounded_rows(x).float() if kernel_rounds(form) else x.float()
        expected = F.linear(read, weights.dense().float())
        if typed is not None:
            expected = expected + typed.float()
        found = product(x, typed)
        assert found.dtype is dtype
        tight = {"rtol": 1e-4, "atol": 1e-4 * shape[1] ** 0.5}
        torch.testing.assert_close(found.float(), expected, **(loose or tight))


@needs_kernel
@pytest.mark.parametrize("form", FORMS)
def test_a_row_has_exactly_the_same_result_with_any_other_rows(form: str) -> None:
    weights, x = FORMS[form](torch.randn(300, 576)), torch.randn(70, 576)
    product = Panels(weights)
    alone = torch.cat([product(row[None], None) for row in x])
    for rows in (2, 6, 8, 9, 70):
        assert torch.equal(product(x[:rows], None), alone[:rows])


@needs_kernel
def test_the_result_is_exactly_the_same_with_any_number_of_threads() -> None:
    product, x = Panels(PlainWeights(torch.randn(500, 576))), torch.randn(6, 576)
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(product(x, None))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*found)


@needs_kernel
@pytest.mark.parametrize("form", FORMS)
def test_an_input_without_rows_gives_no_rows(form: str) -> None:
    product = Panels(FORMS[form](torch.randn(61, 64)))
    assert product(torch.empty(0, 64), None).shape == (0, 61)


@needs_kernel
@pytest.mark.parametrize(
    "x, added, message",
    [
        (torch.zeros(2, 32), None, r"x must be \[T, 64\] on cpu, got \[2, 32\]"),
        (torch.zeros(2, 64, device="meta"), None, "on cpu, got .* on meta"),
        (torch.zeros(2, 64, dtype=torch.float64), None, "float32 or bfloat16, got torch.float64"),
        (torch.zeros(2, 64), torch.zeros(60), r"added must be \[61\] or \[2, 61\]"),
        (torch.zeros(2, 64), torch.zeros(1, 61), r"added must be \[61\] or \[2, 61\]"),
        (torch.zeros(2, 64), torch.zeros(61).bfloat16(), "of torch.float32 on cpu, got"),
        (torch.zeros(2, 64), torch.zeros(61, device="meta"), "added must be .* on meta"),
    ],
    ids=["width", "device", "dtype", "bias", "residual", "bias of half", "bias elsewhere"],
)
def test_the_kernel_refuses_memory_of_the_wrong_size(
    x: torch.Tensor, added: torch.Tensor | None, message: str
) -> None:
    """The error message equals that of torch's own kernels.

    Without the check, the compiled kernel would read beyond its memory and crash.
    """
    with pytest.raises(RuntimeError, match=message):
        Panels(PlainWeights(torch.randn(61, 64)))(x, added)


@needs_kernel
@pytest.mark.parametrize("form", FORMS)
def test_the_weights_can_be_read_from_their_panels(form: str) -> None:
    weights = FORMS[form](torch.randn(61, 64))
    assert torch.equal(Panels(weights).weights().dense(), weights.dense())


@pytest.mark.parametrize(
    "registers",
    [
        Registers.of("x86_64", AVX512),
        Registers.of("amd64", {"avx2": True, "fma": True}),
        Registers.of("arm64", {}),
    ],
    ids=["avx512", "avx2", "neon"],
)
@pytest.mark.parametrize("form", PanelForm)
def test_a_tile_keeps_its_sums_in_registers(registers: Registers | None, form: PanelForm) -> None:
    assert registers is not None
    most = 32 if registers.lanes in (4, 16) else 16
    assert registers.rows * registers.vectors + registers.vectors + 1 <= most
    llvm = pytest.importorskip("llvmlite.binding")
    for rows in RowType:
        if registers.lanes != 4 or not registers.can_permute:
            llvm.parse_assembly(source(form, rows, registers, is_parallel=True)).verify()


def modules(registers: Registers) -> Iterator[str]:
    """Yield the source of every compiled module that may contain bfloat16."""
    for form in PanelForm:
        yield source(form, RowType.BFLOAT16, registers, is_parallel=True)
    yield row_source()
    yield head_source(64, CachedType.BFLOAT16)


@pytest.mark.parametrize(
    "processor, features",
    [
        ("haswell", {"avx2": True, "fma": True}),
        ("skylake-avx512", AVX512),
        ("icelake-server", AVX512 | {"avx512vnni": True}),
    ],
)
def test_no_processor_needs_a_function_that_the_system_may_lack(
    processor: str, features: dict[str, bool]
) -> None:
    """The processors of this test have no instructions for bfloat16."""
    llvm = pytest.importorskip("llvmlite.binding")
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    registers = Registers.of("x86_64", features)
    assert registers is not None
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu=processor, opt=2)
    for text in modules(registers):
        code = machine.emit_assembly(llvm.parse_assembly(text))
        assert not re.findall(r"\b__\w+", code)


@needs_kernel
@pytest.mark.parametrize("form", FORMS)
def test_results_in_bfloat16_are_those_in_float32_rounded_as_torch_rounds(form: str) -> None:
    """The results include infinity, NaN, ties and numbers that float32 stores without exponent."""
    if form == "float32":
        pytest.skip("a matrix is at most as wide as its rows")
    product = Panels(FORMS[form](torch.zeros(61, 64)))
    special = [math.inf, -math.inf, math.nan, 0.0, -0.0, 1e-40, -1e-40, 3.38e38, 1.00390625]
    added = torch.cat((torch.tensor(special), torch.randn(52))).bfloat16()
    found = product(torch.zeros(3, 64).bfloat16(), added)
    torch.testing.assert_close(found, added.expand(3, -1), rtol=0, atol=0, equal_nan=True)


@needs_kernel
@pytest.mark.parametrize("form", FORMS)
def test_a_row_that_needs_too_much_stack_has_no_kernel_that_rounds_it(form: str) -> None:
    """The rows have so many inputs that eight rounded rows need 20 MB.

    A thread's stack often has only 8 MB.
    """
    has_kernel = kernel.has_kernel(PanelForm(form), torch.float32, 1 << 20)
    assert has_kernel is not kernel_rounds(form)


def test_a_processor_without_fused_multiply_add_has_no_kernel() -> None:
    assert Registers.of("x86_64", {"sse4.2": True}) is None


def test_without_llvm_there_is_no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "llvm", None)
    assert not kernel.has_kernel(PanelForm.FLOAT32, torch.float32, 576)


@needs_kernel
def test_without_the_threads_of_torch_the_kernel_uses_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel, "openmp", lambda: None)
    for threads in (1, 2):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert kernel.has_kernel(PanelForm.FLOAT32, torch.float32, 576) is (threads == 1)
