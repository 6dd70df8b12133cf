"""A model is placed on one device or on several GPUs, or is refused in one plain sentence."""

from __future__ import annotations

from importlib.machinery import ModuleSpec

import pytest
import torch

from specviz.errors import InputError
from specviz.models import memory
from specviz.models.memory import Placement, dtype_warnings, place, room_bytes

CPU, GPU = torch.device("cpu"), torch.device("cuda")
GB = 10**9
BF16 = torch.bfloat16


class Machine:
    """Free main memory and free memory of each GPU, in GB; `cuda` is the first GPU."""

    def __init__(self, memory: int | None, *gpus: int) -> None:
        self.memory, self.gpus = memory, gpus

    def free_bytes(self, device: torch.device) -> int | None:
        size = self.memory if device.type == "cpu" else self.gpus[device.index or 0]
        return None if size is None else size * GB


def install(monkeypatch: pytest.MonkeyPatch, machine: Machine, has_accelerate: bool = True) -> None:
    spec = ModuleSpec("accelerate", None) if has_accelerate else None
    monkeypatch.setattr(memory, "free_bytes", machine.free_bytes)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(machine.gpus))
    monkeypatch.setattr(memory.importlib.util, "find_spec", lambda name: spec)


def refusal(size: int, device: torch.device, dtype: torch.dtype = BF16) -> str:
    with pytest.raises(InputError) as caught:
        place("big", size, device, dtype)
    return str(caught.value)


def test_a_model_that_fits_is_placed_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Machine(200, 80))
    assert place("any", 70 * GB, CPU, BF16) == Placement(CPU)
    assert place("any", 70 * GB, GPU, BF16) == Placement(GPU)
    assert place("any", 70 * GB, GPU, BF16).options == {}


def test_if_the_machine_does_not_report_its_memory_nothing_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, Machine(None))
    assert place("any", 10**15, CPU, BF16) == Placement(CPU)
    assert room_bytes(CPU) is None


def test_a_model_that_is_too_large_is_refused_with_both_sizes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, Machine(22, 24))
    expected = (
        "model 'big' needs about 141 GB in bfloat16, but 22 GB are free (cpu): choose a smaller"
    )
    assert refusal(141 * GB, CPU).startswith(expected)
    assert "24 GB are free (cuda)" in refusal(141 * GB, GPU)
    assert refusal(282 * GB, CPU, torch.float32).endswith("choose a smaller one, or bfloat16")


def test_a_model_is_spread_over_gpus_if_one_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Machine(200, 80, 80, 80))
    placed = place("big", 141 * GB, GPU, BF16)
    assert placed.is_spread
    assert placed.options == {"device_map": "auto", "max_memory": dict.fromkeys(range(3), 72 * GB)}
    assert room_bytes(GPU) == 216 * GB


def test_a_model_that_fits_one_gpu_is_not_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Machine(200, 80, 80))
    assert not place("any", 70 * GB, GPU, BF16).is_spread


def test_without_the_package_accelerate_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, Machine(200, 80, 80), has_accelerate=False)
    assert refusal(141 * GB, GPU).endswith(
        "one GPU has 80 GB free: install accelerate to spread it over 2 GPUs"
    )
    assert "80 GB are free (cuda)" in refusal(200 * GB, GPU)


def test_weights_must_fit_into_main_memory_on_their_way_to_the_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    install(monkeypatch, Machine(16, 80))
    message = refusal(40 * GB, GPU)
    rule = "must fit into main memory while it is loaded onto the GPU"
    assert f"{rule}: it needs 40 GB, but 16 GB are free" in message


def test_float16_on_a_cpu_gives_a_warning() -> None:
    assert list(dtype_warnings(CPU, torch.float16)) == [
        "float16 is slow on a CPU: choose bfloat16 or float32"
    ]
    assert list(dtype_warnings(CPU, BF16)) == list(dtype_warnings(CPU, torch.float32)) == []


@pytest.mark.parametrize("has_it", [True, False])
def test_a_gpu_without_bfloat16_gives_a_warning(
    monkeypatch: pytest.MonkeyPatch, has_it: bool
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: has_it)
    assert len(list(dtype_warnings(GPU, BF16))) == (not has_it)
