"""The counted way from the device to the host: every blocking copy of a run goes through here."""

from __future__ import annotations

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
