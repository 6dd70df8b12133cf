"""Work on tensors at fixed addresses, captured as a CUDA graph and replayed in one call.

Replaying a graph starts all its kernels at once, with no Python between them. Without CUDA, and
where a capture fails, the work is simply done again and its results copied to the same addresses,
so that whoever keeps a result too long is found out there too.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Work = Callable[[], tuple[Tensor, ...]]

WARM_UPS = 2  # libraries choose kernels and set up their memory at first calls, which must not be
_capture = threading.Lock()


class CapturedWork:
    """`work` reads and writes tensors that keep their addresses, and waits for nothing.

    Its results are where they were after the first call: the next call writes over them. Calls
    that share a `pool` of graph memory must not run at the same time.
    """

    def __init__(self, work: Work, device: torch.device, pool: Any = None) -> None:
        self._work = work
        self._graph: torch.cuda.CUDAGraph | None = None
        if device.type == "cuda":
            try:
                self._graph, self._results = _captured(work, device, pool)
                return
            except RuntimeError as error:  # slower, but a run is better than none
                warnings.warn(
                    f"a step runs kernel by kernel, not as a graph: {error}", stacklevel=2
                )
        self._results = work()

    def __call__(self) -> tuple[Tensor, ...]:
        if self._graph is not None:
            self._graph.replay()
        else:
            for place, result in zip(self._results, self._work(), strict=True):
                place.copy_(result)
        return self._results


def graph_pool(device: torch.device) -> Any:
    """Memory that graphs share; None where there are none."""
    return torch.cuda.graph_pool_handle() if device.type == "cuda" else None


def _captured(
    work: Work, device: torch.device, pool: Any
) -> tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]:
    """Warm up beside the current stream, then record; one capture at a time in this process."""
    with _capture, torch.cuda.device(device):
        current = torch.cuda.current_stream()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(current)
        with torch.cuda.stream(side):
            for _ in range(WARM_UPS):
                work()
        current.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # other threads go on allocating: only this one's calls are held to the rules of capture
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            results = work()
    return graph, results
