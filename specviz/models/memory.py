"""How much memory a device has left, and where weights go: one device, or several GPUs.

Where a machine does not say how much is free, the answer is None and nothing is refused.
"""

from __future__ import annotations

import ctypes
import errno
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from specviz.errors import InputError

_SYSTEM = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")  # the container's own limit: version 2, then version 1
_GROUP_FILES = (
    ("memory.max", "memory.current", "memory.stat"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
    ),
)
_TRIM = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None


def free_bytes(device: torch.device) -> int | None:
    """What is left on one device: main memory, or that of one GPU."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + unused)
    found = [size for size in (_system_bytes(), _group_bytes()) if size is not None]
    return min(found, default=None)


def give_back() -> None:
    """Return to the system what glibc's allocator holds free: it would keep that, thread by thread.

    Takes some milliseconds.
    """
    if _TRIM is not None:
        _TRIM(0)


def can_give_back() -> bool:
    """Whether the allocator is glibc's."""
    return _TRIM is not None


def gigabytes(count: float) -> str:
    """Bytes as they stand in messages.

    >>> gigabytes(141_107_412_992), gigabytes(2_470_000_000), gigabytes(46_000_000)
    ('141 GB', '2.5 GB', '0.05 GB')
    """
    size = count / 1e9
    digits = 0 if size >= 10 else 1 if size >= 1 else 2
    return f"{size:.{digits}f} GB"


def _system_bytes() -> int | None:
    for line in _lines(_SYSTEM):
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _group_bytes() -> int | None:
    """The container's limit less what it holds; file pages that can go at once do not count."""
    for limit_file, usage_file, statistics_file in _GROUP_FILES:
        limit, usage = _number(_GROUP / limit_file), _number(_GROUP / usage_file)
        if limit is not None and usage is not None:
            return max(0, limit - usage + _file_pages(_GROUP / statistics_file))
    return None


def _file_pages(file: Path) -> int:
    values = dict(line.split(maxsplit=1) for line in _lines(file) if " " in line)
    return int(values.get("total_inactive_file", values.get("inactive_file", 0)))


def _number(file: Path) -> int | None:
    """None where there is no such file, or no limit in it."""
    for line in _lines(file):
        return int(line) if line.strip().isdigit() else None
    return None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeError):
        return []


def is_shortage(error: BaseException) -> bool:
    """Whether something failed for want of memory, whatever it was that asked for it."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    words = str(error).lower()
    if isinstance(error, SystemError):  # the interpreter could not even make an exception
        return "without exception set" in words
    return isinstance(error, RuntimeError) and any(each in words for each in _SHORTAGE_WORDS)


# of torch's allocator and its mapped files, of oneDNN, of threads that could not begin
_SHORTAGE_WORDS = (
    *("can't allocate memory", "cannot allocate memory", "not enough memory", "out of memory"),
    *("could not create a memory", "could not create a primitive", "can't start new thread"),
)


_KEPT = 0.1  # of each GPU, for caches and the draft, where a target is spread


@dataclass(frozen=True, slots=True)
class Placement:
    """A device, or all GPUs with `device` as the first of them."""

    device: torch.device
    is_spread: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """What transformers must be told for it."""
        if not self.is_spread:
            return {}
        room = {i: int(free * (1 - _KEPT)) for i, free in enumerate(gpu_bytes())}
        return {"device_map": "auto", "max_memory": room}


def place(source: str, size: int, device: torch.device, dtype: torch.dtype) -> Placement:
    """A place for weights of `size` bytes; InputError where there is none."""
    free = free_bytes(device)
    if free is None or size <= free:
        _check_way(source, size, device)
        return Placement(device)
    if size <= spread_bytes(device):
        return Placement(torch.device("cuda", 0), is_spread=True)
    raise InputError(f"model {source!r} {shortage(size, device, dtype)}")


def _check_way(source: str, size: int, device: torch.device) -> None:
    """Weights of a GPU pass through main memory."""
    free = free_bytes(torch.device("cpu"))
    if device.type == "cuda" and free is not None and size > free:
        raise InputError(
            f"model {source!r} must pass through main memory with {gigabytes(size)}, "
            f"{gigabytes(free)} are free: choose a smaller one"
        )


def room_bytes(device: torch.device) -> int | None:
    """The most that models can take there, spread or not; None where the machine does not say."""
    free = free_bytes(device)
    return None if free is None else max(free, spread_bytes(device))


def spread_bytes(device: torch.device) -> int:
    """What all GPUs together leave for a model that is spread over them; 0 where that cannot be."""
    gpus = gpu_bytes() if device.type == "cuda" else []
    can_spread = len(gpus) > 1 and importlib.util.find_spec("accelerate") is not None
    return int(sum(gpus) * (1 - _KEPT)) if can_spread else 0


def gpu_bytes() -> list[int]:
    """What each GPU has left."""
    devices = (torch.device("cuda", i) for i in range(torch.cuda.device_count()))
    return [free_bytes(device) or 0 for device in devices]


def dtype_warnings(device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    """What the device does not do well."""
    if dtype == torch.float16 and device.type == "cpu":
        yield "float16 is slow on a CPU: choose bfloat16 or float32"
    if dtype == torch.bfloat16 and device.type == "cuda":
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            yield "this GPU has no bfloat16 of its own: choose float16 or float32"


def shortage(size: int, device: torch.device, dtype: torch.dtype) -> str:
    """That `size` bytes do not fit, what would help, and how much is free."""
    name = str(dtype).removeprefix("torch.")
    needs = f"needs about {gigabytes(size)} in {name}"
    gpus = gpu_bytes() if device.type == "cuda" else []
    if len(gpus) > 1 and size <= sum(gpus) * (1 - _KEPT):
        return (
            f"{needs}, one GPU has {gigabytes(max(gpus))} free: install accelerate to spread it "
            f"over {len(gpus)} GPUs"
        )
    free = gigabytes(room_bytes(device) or 0)
    smaller = "a smaller one, or bfloat16" if dtype == torch.float32 else "a smaller one"
    return f"{needs}, {free} are free ({device.type}): choose {smaller}"
