"""The reading limit: a forward pass takes at least the time to read the weights from memory.

A forward pass of few tokens reads every weight once. The memory bandwidth of each device and number
of threads is measured once per process, which takes about half a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import torch
from torch import Tensor

from specviz.models.accelerator import is_accelerator
from specviz.models.local_model import LocalModel
from specviz.models.memory import free_bytes
from specviz.records import ReadingLimit

# number of bytes that a measurement reads, much larger than a processor's caches
READ_BYTES = 512 << 20
# The number of times that each function of `_reads` is measured.
READS = 3
# The smallest free memory, as a multiple of READ_BYTES, with which the bandwidth is measured.
LEAST_FREE = 4

_limits: dict[tuple[str, int], float] = {}
_lock = threading.Lock()


def reading_limit(model: object) -> ReadingLimit | None:
    """Return the memory bandwidth, and the bytes of weights that one forward pass reads.

    Return None if the model is in another process, or if too little memory is free to measure. Also
    return None for a mixture of experts, for which the number of bytes is unknown.
    """
    if not isinstance(model, LocalModel) or model.step_bytes is None:
        return None
    speed = read_bandwidth(model.device)
    return None if speed is None else ReadingLimit(speed, model.step_bytes)


def read_bandwidth(device: torch.device) -> float | None:
    """Return the memory bandwidth in bytes per second.

    The bandwidth is measured once per device and number of threads.
    """
    key = (str(device), torch.get_num_threads())
    with _lock:
        if key not in _limits:
            found = measured_bandwidth(device)
            if found is None:
                return None
            _limits[key] = found
        return _limits[key]


def measured_bandwidth(device: torch.device) -> float | None:
    """Measure how many bytes per second the device can read, with torch's current threads.

    Every measurement reads READ_BYTES of memory once. A CPU reads in several ways: sum and maximum
    of floats, dot product, sum of integers. A GPU copies, which reads and writes. The result is the
    fastest measurement, not the median: other work or a slow kernel can only make a measurement
    slower. A bandwidth that is too low would make forward passes look nearer to the limit than they
    are. Returns None if less memory is free than LEAST_FREE times READ_BYTES.
    """
    free = free_bytes(device)
    if free is not None and free < LEAST_FREE * READ_BYTES:
        return None
    # Write the memory before reading it. The system maps all unwritten pages to one page, which
    # would stay in the processor's cache.
    data = torch.ones(READ_BYTES // 4, device=device)
    if device.type == "cpu":
        return READ_BYTES / min(_seconds(read, device) for read in _reads(data) * READS)
    target = torch.empty_like(data)
    copies = (_seconds(lambda: target.copy_(data), device) for _ in range(1 + READS))
    return 2 * READ_BYTES / min(copies)


def _reads(data: Tensor) -> tuple[Callable[[], object], ...]:
    """Return functions to measure: each reads a float32 vector once, and writes almost nothing."""
    return data.sum, data.max, lambda: torch.dot(data, data), data.view(torch.int64).sum


@torch.inference_mode()
def _seconds(read: Callable[[], object], device: torch.device) -> float:
    began = time.perf_counter()
    read()
    if is_accelerator(device):
        torch.cuda.synchronize(device)
    return time.perf_counter() - began
