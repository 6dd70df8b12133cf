"""The free memory of a device, and the placement of weights on one device or several GPUs.

If a machine does not report its free memory, the result is None and nothing is refused.
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
from specviz.models.accelerator import is_accelerator

_SYSTEM = Path("/proc/meminfo")
# In this folder, Linux shows the container's memory limit. _GROUP_FILES has the names of its files
# for cgroup version 2 and for version 1.
_GROUP = Path("/sys/fs/cgroup")
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
    """Return the free memory of a device in bytes: main memory, or the memory of one GPU."""
    if is_accelerator(device):
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + unused)
    found = [size for size in (_system_bytes(), _group_bytes()) if size is not None]
    return min(found, default=None)


def give_back() -> None:
    """Return free memory to the operating system, which takes a few milliseconds.

    Without this call, glibc keeps freed memory of each thread for that thread's next tensors.
    """
    if _TRIM is not None:
        _TRIM(0)


def can_give_back() -> bool:
    """Return whether `give_back` can return memory, which only works with the C library glibc."""
    return _TRIM is not None


def gigabytes(count: float) -> str:
    """Return a number of bytes as text for messages.

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
    """Return the container's memory limit minus the memory that the container uses.

    Cached file pages count as free, because the system can drop them.
    """
    for limit_file, usage_file, statistics_file in _GROUP_FILES:
        limit, usage = _number(_GROUP / limit_file), _number(_GROUP / usage_file)
        if limit is not None and usage is not None:
            return max(0, limit - usage + _file_pages(_GROUP / statistics_file))
    return None


def _file_pages(file: Path) -> int:
    values = dict(line.split(maxsplit=1) for line in _lines(file) if " " in line)
    return int(values.get("total_inactive_file", values.get("inactive_file", 0)))


def _number(file: Path) -> int | None:
    """Return the number in the first line of a file; None if there is no file or no number."""
    for line in _lines(file):
        return int(line) if line.strip().isdigit() else None
    return None


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeError):
        return []


def is_shortage(error: BaseException) -> bool:
    """Return whether an error means a lack of memory, whichever library raised it."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    words = str(error).lower()
    # Python raises this error if it lacks the memory for another exception.
    if isinstance(error, SystemError):
        return "without exception set" in words
    return isinstance(error, RuntimeError) and any(each in words for each in _SHORTAGE_WORDS)


# Words by which errors are recognised as a lack of memory. They occur in messages of torch's
# allocator, of mapped files, of oneDNN, and of threads that cannot start.
_SHORTAGE_WORDS = (
    *("can't allocate memory", "cannot allocate memory", "not enough memory", "out of memory"),
    *("could not create a memory", "could not create a primitive", "can't start new thread"),
)


# The fraction of each GPU's free memory that is kept for caches and the draft if a target is spread
# over several GPUs.
_KEPT = 0.1


@dataclass(frozen=True, slots=True)
class Placement:
    """The devices that get the weights of a model: one device, or all GPUs.

    `device` is the first of them.
    """

    device: torch.device
    is_spread: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Return the arguments with which `from_pretrained` loads weights to these devices."""
        if not self.is_spread:
            return {}
        room = {i: int(free * (1 - _KEPT)) for i, free in enumerate(gpu_bytes())}
        return {"device_map": "auto", "max_memory": room}


def place(source: str, size: int, device: torch.device, dtype: torch.dtype) -> Placement:
    """Choose the devices for weights of `size` bytes.

    Raises InputError if the weights do not fit.
    """
    free = free_bytes(device)
    if free is None or size <= free:
        _check_way(source, size, device)
        return Placement(device)
    if size <= spread_bytes(device):
        return Placement(torch.device("cuda", 0), is_spread=True)
    raise InputError(f"model {source!r} {shortage(size, device, dtype)}")


def _check_way(source: str, size: int, device: torch.device) -> None:
    """Raise InputError if main memory is too small: weights pass through it on the way to a GPU."""
    free = free_bytes(torch.device("cpu"))
    if is_accelerator(device) and free is not None and size > free:
        raise InputError(
            f"model {source!r} must fit into main memory while it is loaded onto the GPU: it "
            f"needs {gigabytes(size)}, but {gigabytes(free)} are free; choose a smaller model"
        )


def room_bytes(device: torch.device) -> int | None:
    """Return the free memory of the device, or of all GPUs together if a model can use them.

    Return None if the machine does not report it.
    """
    free = free_bytes(device)
    return None if free is None else max(free, spread_bytes(device))


def spread_bytes(device: torch.device) -> int:
    """Return the free memory of all GPUs together, or 0 if one model cannot use several GPUs."""
    gpus = gpu_bytes() if is_accelerator(device) else []
    can_spread = len(gpus) > 1 and importlib.util.find_spec("accelerate") is not None
    return int(sum(gpus) * (1 - _KEPT)) if can_spread else 0


def gpu_bytes() -> list[int]:
    """Return the free memory of each GPU of the machine in bytes."""
    devices = (torch.device("cuda", i) for i in range(torch.cuda.device_count()))
    return [free_bytes(device) or 0 for device in devices]


def dtype_warnings(device: torch.device, dtype: torch.dtype) -> Iterator[str]:
    """Yield a warning if models in this dtype are slow or imprecise on the device."""
    if dtype == torch.float16 and device.type == "cpu":
        yield "float16 is slow on a CPU: choose bfloat16 or float32"
    if dtype == torch.bfloat16 and is_accelerator(device):
        if not torch.cuda.is_bf16_supported(including_emulation=False):
            yield "this GPU has no bfloat16 of its own: choose float16 or float32"


def shortage(size: int, device: torch.device, dtype: torch.dtype) -> str:
    """Return a text that says how much memory is needed, how much is free, and what would help."""
    name = str(dtype).removeprefix("torch.")
    needs = f"needs about {gigabytes(size)} in {name}"
    gpus = gpu_bytes() if is_accelerator(device) else []
    if len(gpus) > 1 and size <= sum(gpus) * (1 - _KEPT):
        return (
            f"{needs}, but one GPU has {gigabytes(max(gpus))} free: install accelerate to spread "
            f"it over {len(gpus)} GPUs"
        )
    free = gigabytes(room_bytes(device) or 0)
    smaller = "a smaller one, or bfloat16" if dtype == torch.float32 else "a smaller one"
    return f"{needs}, but {free} are free ({device.type}): choose {smaller}"
