"""The ways from the device to the host: the counted one that waits, and a late one that does not.

Every blocking copy of a run goes through `HostTransfer`.
"""

from __future__ import annotations

import torch
from torch import Tensor


class HostTransfer:
    """Copies tensors to the host and counts how often the host had to wait."""

    def __init__(self) -> None:
        self.count = 0

    def to_host(self, tensor: Tensor) -> list[float]:
        """A 1-D tensor as a list; blocks until the device has computed it."""
        self.count += 1
        values: list[float] = tensor.tolist()
        return values


class LateTransfer:
    """Numbers for display, copied without blocking; read them behind a later blocking copy."""

    def __init__(self, device: torch.device) -> None:
        number = torch.zeros(1, pin_memory=device.type == "cuda")
        self._buffer = number
        self._arrived = number.numpy()  # the same memory, which can be read without a tensor

    def send(self, number: Tensor) -> None:
        """Start the copy of one number."""
        self._buffer.copy_(number.reshape(1), non_blocking=True)

    def arrived(self) -> float:
        """What was sent before the last blocking copy."""
        return float(self._arrived[0])
