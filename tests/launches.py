"""Count what a piece of work starts on a device: operations, CUDA graph replays, uploads.

On an accelerator each operation, replay and upload is a driver call, which takes the host some
microseconds, however small the tensors are. The counts are taken on a CPU, where captured work runs
without CUDA graphs. It is counted as one replay, as on a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from specviz.models.graphs.captured_work import CapturedWork

REPLAY = "replay"
UPLOAD = "upload"
# Operations that start nothing on the device: they allocate memory or read host tensors.
FREE = {
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "detach",
    "detach_",
    "_local_scalar_dense",
}


class Launches(TorchDispatchMode):
    """A torch dispatch mode that counts the operations that start while it is active.

    `counts` maps the name of an operation to its number; see `launches`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.is_replaying = False
        # The last tensor made from Python numbers. Making it and copying it to the device count
        # together as one upload.
        self._uploaded: Any = None

    @property
    def total(self) -> int:
        return self.counts.total()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self.is_replaying:
            return func(*args, **(kwargs or {}))
        # Inference mode does not split an operation that is composed of others. So split it here
        # and count its parts.
        if func._can_decompose() and not func.is_view:
            with self:
                return func.decompose(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        result = func(*args, **(kwargs or {}))
        # `lift_fresh` creates a tensor from Python numbers, which is then copied to the device.
        if name == "lift_fresh":
            self.counts[UPLOAD] += 1
            self._uploaded = result
        elif name == "copy_" and args[1] is self._uploaded:
            self._uploaded = None
        elif not func.is_view and name not in FREE:
            self.counts[name] += 1
        return result

    @contextmanager
    def nothing(self) -> Iterator[None]:
        """Stop counting inside the `with` block."""
        before, self.is_replaying = self.is_replaying, True
        try:
            yield
        finally:
            self.is_replaying = before


@contextmanager
def launches(monkeypatch: pytest.MonkeyPatch) -> Iterator[Launches]:
    """Count the operations, graph replays and uploads that the `with` block starts.

    Captures of CUDA graphs are not counted, because they happen only once. Copies to the host are
    not counted either.
    """
    counted = Launches()
    capture, run = CapturedWork.__init__, CapturedWork.__call__

    def captured(*args: Any) -> None:
        with counted.nothing():
            capture(*args)

    def replayed(work: CapturedWork) -> tuple[torch.Tensor, ...]:
        if not counted.is_replaying:
            counted.counts[REPLAY] += 1
        with counted.nothing():
            return run(work)

    with monkeypatch.context() as patch:
        patch.setattr(CapturedWork, "__init__", captured)
        patch.setattr(CapturedWork, "__call__", replayed)
        with counted:
            yield counted
