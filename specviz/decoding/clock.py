"""Measure how long work on a device takes, without waiting for the device.

On a CPU a mark is the time of the host's clock. On a GPU it is an event in the CUDA stream. The
decoder reads the time between two events only after a copy from the GPU that blocks, because by
then the GPU has passed both events.
"""

from __future__ import annotations

import time
from typing import Protocol

import torch

from specviz.models.accelerator import is_accelerator


class Mark(Protocol):
    """A moment between two pieces of work that a device runs one after another."""

    def seconds_until(self, later: Mark) -> float:
        """Return the seconds from this mark to `later`. The device must have passed both marks."""
        ...


class HostMark:
    def __init__(self) -> None:
        self.time = time.perf_counter()

    def seconds_until(self, later: Mark) -> float:
        assert isinstance(later, HostMark)
        return later.time - self.time


class CudaMark:
    def __init__(self) -> None:
        self.event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self.event.record()

    def seconds_until(self, later: Mark) -> float:
        assert isinstance(later, CudaMark)
        return float(self.event.elapsed_time(later.event)) / 1000


def mark(device: torch.device) -> Mark:
    """Create a mark for the current moment on this device."""
    return CudaMark() if is_accelerator(device) else HostMark()


def wait_for(device: torch.device) -> None:
    """Wait until the device has finished its work, because a GPU works while the host continues."""
    if is_accelerator(device):
        torch.cuda.synchronize(device)


class Stopwatch:
    """Measure how long the parts of a round take. The time starts when the object is created."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.began = time.perf_counter()
        self._start = self._read = self._drafted = self._verified = mark(device)

    def read(self) -> None:
        """Mark the moment at which the drafter has read the prompt (the end of its prefill).

        Without this call the drafter's prefill counts as 0 seconds.
        """
        self._read = mark(self._device)

    def drafted(self) -> None:
        self._drafted = mark(self._device)

    def verified(self) -> None:
        self._verified = mark(self._device)

    def split(self) -> tuple[float, float, float, float]:
        """Return the seconds of draft prefill, drafting, verification and all other work."""
        read = self._start.seconds_until(self._read)
        draft = self._read.seconds_until(self._drafted)
        verify = self._drafted.seconds_until(self._verified)
        host = time.perf_counter() - self.began - read - draft - verify
        return read, draft, verify, max(0.0, host)
