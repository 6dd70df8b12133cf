"""Free memory is the smaller limit of machine and container; an unknown limit is None."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specviz.models import memory
from specviz.models.memory import free_bytes

CPU = torch.device("cpu")
GB = 10**9


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Simulate a machine that does not report its memory; return the folder of its system files."""
    monkeypatch.setattr(memory, "_SYSTEM", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_GROUP", tmp_path / "cgroup")
    (tmp_path / "cgroup" / "memory").mkdir(parents=True)
    return tmp_path


def write(folder: Path, **files: object) -> None:
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def system(machine: Path, free: int) -> None:
    text = f"MemTotal: 99999999 kB\nMemFree: 5 kB\nMemAvailable: {free // 1024} kB"
    write(machine, meminfo=text)


def test_the_memory_of_a_machine_that_does_not_report_it_is_unknown(machine: Path) -> None:
    assert free_bytes(CPU) is None


def test_the_system_reports_the_available_memory(machine: Path) -> None:
    system(machine, 1024 * 10**6)
    assert free_bytes(CPU) == 1024 * 10**6


def test_a_container_s_free_memory_is_its_limit_minus_its_use(machine: Path) -> None:
    system(machine, 1024 * 10**8)
    files = {"memory__max": 16 * GB, "memory__current": 6 * GB}
    write(machine / "cgroup", **files, memory__stat=f"anon 5\ninactive_file {2 * GB}")
    assert free_bytes(CPU) == 12 * GB


def test_in_a_container_without_a_limit_the_machine_s_memory_counts(machine: Path) -> None:
    system(machine, 1024 * 10**6)
    write(machine / "cgroup", memory__max="max", memory__current=6 * GB)
    assert free_bytes(CPU) == 1024 * 10**6


def test_the_limit_of_an_older_container_format_counts_as_well(machine: Path) -> None:
    folder = machine / "cgroup" / "memory"
    write(folder, memory__limit_in_bytes=8 * GB, memory__usage_in_bytes=3 * GB)
    write(folder, memory__stat=f"inactive_file 1\ntotal_inactive_file {GB}")
    assert free_bytes(CPU) == 6 * GB


def test_a_container_above_its_limit_has_no_free_memory(machine: Path) -> None:
    write(machine / "cgroup", memory__max=GB, memory__current=2 * GB)
    assert free_bytes(CPU) == 0


def test_this_machine_reports_a_plausible_number() -> None:
    free = free_bytes(CPU)
    assert free is None or 10**7 < free < 10**14


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_memory_that_torch_has_reserved_but_does_not_use_is_free() -> None:
    device = torch.device("cuda", 0)
    before = free_bytes(device)
    held = torch.zeros(10**8, device=device)
    between = free_bytes(device)
    del held
    assert before is not None and between is not None
    assert between < before
    assert abs((free_bytes(device) or 0) - before) < 10**8
