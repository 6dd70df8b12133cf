"""Durations of work on a device, measured without waiting for it.

On a CPU a mark is a reading of the host's clock. On CUDA it is an event in the stream; durations
are read after the round's blocking copy, when the device has passed both events anyway.
"""

from __future__ import annotations

import time
from typing import Protocol

import torch


class Mark(Protocol):
    """A moment in a device's stream of work."""

    def seconds_until(self, later: Mark) -> float:
        """Both moments must have passed on the device."""
        ...


class HostMark:
    """A moment on the host's clock."""

    def __init__(self) -> None:
        self.time = time.perf_counter()

    def seconds_until(self, later: Mark) -> float:
        assert isinstance(later, HostMark)
        return later.time - self.time


class CudaMark:
    """A moment in the current CUDA stream."""

    def __init__(self) -> None:
        self.event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self.event.record()

    def seconds_until(self, later: Mark) -> float:
        assert isinstance(later, CudaMark)
        return float(self.event.elapsed_time(later.event)) / 1000


def mark(device: torch.device) -> Mark:
    """This moment in the device's stream."""
    return CudaMark() if device.type == "cuda" else HostMark()


def wait_for(device: torch.device) -> None:
    """Return when the device has done all that it was given; only CUDA lets the host run ahead."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Stopwatch:
    """Splits a round into its parts; it starts when it is made."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.began = time.perf_counter()
        self._start = self._read = self._drafted = self._verified = mark(device)

    def read(self) -> None:
        """The drafter has read the text before the root; without this mark it read nothing."""
        self._read = mark(self._device)

    def drafted(self) -> None:
        self._drafted = mark(self._device)

    def verified(self) -> None:
        self._verified = mark(self._device)

    def split(self) -> tuple[float, float, float, float]:
        """Seconds of the drafter's reading, of drafting, of verification, of all else up to now."""
        read = self._start.seconds_until(self._read)
        draft = self._read.seconds_until(self._drafted)
        verify = self._drafted.seconds_until(self._verified)
        host = time.perf_counter() - self.began - read - draft - verify
        return read, draft, verify, max(0.0, host)
