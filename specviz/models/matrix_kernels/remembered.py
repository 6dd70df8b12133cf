"""Store the measured times of matrix kernels on disk, for this machine and these versions.

The file is a cache. If it cannot be read, or if another machine or version wrote it, it is ignored.
Nothing in it is executed, and names and numbers are checked.
"""

from __future__ import annotations

import json
import math
import os
import platform
import tempfile
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import astuple
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import specviz
from specviz.models.matrix_kernels.choice import FIRST_ROWS, MatrixKind
from specviz.models.matrix_kernels.kernel_candidates import BY_NAME
from specviz.models.matrix_kernels.measuring import Times

FILE = "matrix_kernels.json"
# Largest size of the file. The entries for a chat model need about ten thousand bytes.
MOST_BYTES = 1 << 20


def read_times(folder: Path) -> dict[MatrixKind, Times]:
    """Return the stored times. The result is empty if there are none that this process may use."""
    file = folder / FILE
    try:
        # reading a pipe would wait forever
        if not file.is_file() or file.stat().st_size > MOST_BYTES:
            return {}
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["machine"] != machine():
            return {}
        return dict(_entry(each) for each in content["matrices"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


def write_times(folder: Path, times: Mapping[MatrixKind, Times]) -> None:
    """Write all times to the file. If the folder cannot be written, do nothing."""
    matrices = [
        {
            "matrix": list(astuple(kind)),
            "seconds": {name: list(each) for name, each in found.items()},
        }
        for kind, found in sorted(times.items())
    ]
    text = json.dumps({"machine": machine(), "matrices": matrices}, indent=1)
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=FILE)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(name, folder / FILE)
        except OSError:
            Path(name).unlink(missing_ok=True)


@cache
def machine() -> str:
    """Return a text that changes whenever measured times may change."""
    parts = (
        _processor(),
        platform.system(),
        f"specviz {specviz.__version__}",
        f"torch {torch.__version__}",
        f"llvmlite {_version('llvmlite')}",
        f"{torch.backends.cpu.get_cpu_capability()}",
        f"kernels {_code():08x}",
    )
    return "; ".join(parts)


def _code() -> int:
    """Return a checksum of this package's source files; times of older kernels are not used."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return zlib.crc32(b"".join(file.read_bytes() for file in files))


def _processor() -> str:
    fields = dict.fromkeys(("model name", "flags", "Features"), "")
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in fields and not fields[name.strip()]:
                fields[name.strip()] = value.strip()
    return " ".join(each for each in (platform.processor(), *fields.values()) if each)


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"


def _entry(found: Any) -> tuple[MatrixKind, Times]:
    form, rows, *sizes, only_plain = found["matrix"]
    outputs, inputs, threads = sizes
    if not all(type(each) is str for each in (form, rows)):
        raise ValueError("a form must be a text")
    if type(only_plain) is not bool:
        raise ValueError("whether only the plain layout is allowed must be true or false")
    if not all(type(each) is int and each > 0 for each in sizes):
        raise ValueError("a size must be a positive integer")
    times = {name: tuple(map(_seconds, each)) for name, each in found["seconds"].items()}
    if not times or any(len(each) != len(FIRST_ROWS) for each in times.values()):
        raise ValueError("a candidate must have a time for each class of rows")
    if not set(times) <= set(BY_NAME):
        raise ValueError("a candidate must be a known one")
    return MatrixKind(form, rows, outputs, inputs, threads, only_plain), times


def _seconds(value: Any) -> float:
    if type(value) is not float or not (math.isfinite(value) and value > 0):
        raise ValueError("a time must be a positive number")
    return value
