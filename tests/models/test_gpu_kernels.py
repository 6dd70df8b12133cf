"""A GPU's kernels multiply by rounded weights; without a GPU only memory layouts are tested."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from specviz.models.matrix_kernels import kernel_candidates
from specviz.models.matrix_kernels.choice import by_rule
from specviz.models.matrix_kernels.kernel_candidates import in_pairs, inner_tiles
from specviz.models.matrix_kernels.projection import Projection, has_int4, int4, int8
from specviz.models.matrix_kernels.weights import Int8Weights, MatrixShape

CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.mark.cuda
@CUDA
@pytest.mark.parametrize("rounded", [int4, int8])
@pytest.mark.parametrize("shape", [(64, 64), (50, 100), (576, 1536)])
def test_gpu_and_cpu_multiply_by_the_same_rounded_weights(
    rounded: Callable[[Tensor], Projection], shape: tuple[int, int]
) -> None:
    weight = torch.randn(shape)
    x = torch.randn(5, shape[1]).bfloat16()
    on_gpu: Projection = rounded(weight.bfloat16().cuda())
    on_cpu: Projection = rounded(weight.bfloat16())
    found, expected = on_gpu(x.cuda()).cpu().float(), x.float() @ on_cpu.weight.T
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2 * shape[1] ** 0.5)
    torch.testing.assert_close(on_gpu.weight.cpu(), on_cpu.weight, rtol=1e-2, atol=1e-2)


def test_two_steps_share_a_byte_and_the_even_input_has_the_upper_half() -> None:
    steps = torch.randint(16, (8, 64), dtype=torch.uint8)
    packed = in_pairs(steps)
    assert packed.shape == (8, 32) and torch.equal(packed >> 4, steps[:, ::2])
    assert torch.equal(packed & 15, steps[:, 1::2])


def test_every_whole_number_of_groups_has_a_tile_size() -> None:
    for groups in range(1, 65):
        assert (32 * groups) % (16 * inner_tiles(32 * groups)) == 0


def test_for_few_rows_a_gpu_reads_int8_weights_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = MatrixShape("int8", 64, 64, "cuda", 4096)
    for has_kernel, few in ((True, "torch-int8"), (False, "widened-int8")):
        monkeypatch.setattr(kernel_candidates, "_runs_on", lambda *_, has=has_kernel: has)
        choice = by_rule(shape, torch.bfloat16, only_plain=False)
        assert choice.names == (few, few, few, few, "widened-int8")


def test_both_int8_kernels_share_one_matrix() -> None:
    weights = Int8Weights.of(torch.randn(16, 64))
    few, many = kernel_candidates.TorchInt8(weights), kernel_candidates.Widened(weights)
    held = [each.weights() for each in (few, many)]
    assert all(isinstance(each, Int8Weights) for each in held)
    assert len({each.steps.data_ptr() for each in held if isinstance(each, Int8Weights)}) == 1


def test_a_gpu_without_an_int4_kernel_offers_none() -> None:
    assert not has_int4(torch.device("xpu"))


def test_rounding_in_blocks_of_rows_gives_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(37, 24)
    whole = Int8Weights.of(weight)
    monkeypatch.setattr("specviz.models.matrix_kernels.weights.ROUNDED_AT_ONCE", 5 * 24)
    parts = Int8Weights.of(weight)
    assert torch.equal(parts.steps, whole.steps) and torch.equal(parts.scale, whole.scale)
