"""How much memory a device has left for models.

Knows nothing of models. Where a machine does not say, the answer is None and nothing is refused.
"""

from __future__ import annotations

from pathlib import Path

import torch

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


def free_bytes(device: torch.device) -> int | None:
    """What is left on one device: main memory, or that of one GPU."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + unused)
    found = [size for size in (_system_bytes(), _group_bytes()) if size is not None]
    return min(found, default=None)


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
