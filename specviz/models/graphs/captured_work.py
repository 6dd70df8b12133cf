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


class GraphSet:
    """The memory and the stream of graphs that never run at the same time.

    A graph keeps the cuBLAS workspace of the stream that it was captured on. Graphs of two sets may
    run at once (a draft beside its target), so each set captures on a stream of its own, and the
    workspaces are cleared before and after a capture, as PyTorch's own graph trees do: a graph's
    workspace is then its set's own memory, which nothing else takes or frees.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pool: Any = None
        self._stream: Any = None

    def capture(self, work: Work) -> tuple[Any, tuple[Tensor, ...]]:
        """Warm up, then capture; one capture at a time in this process. The graph and its results.

        The current stream is the same afterwards, whatever fails.
        """
        with _capture, torch.cuda.device(self.device):
            if self._stream is None:
                self._pool = torch.cuda.graph_pool_handle()
                self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            current = torch.cuda.current_stream()
            self._stream.wait_stream(current)
            with torch.cuda.stream(self._stream):
                for _ in range(WARM_UPS):
                    work()
            current.wait_stream(self._stream)
            torch.cuda.synchronize()
            _clear_workspaces()
            try:
                return self._captured(work)
            finally:
                _clear_workspaces()

    def _captured(self, work: Work) -> tuple[Any, tuple[Tensor, ...]]:
        """`torch.cuda.graph` would leave the capture's stream current where its end fails."""
        torch.cuda.empty_cache()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self._stream):
            # other threads go on allocating: only this one's calls are held to the rules of capture
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                results = work()
            finally:
                graph.capture_end()
        return graph, results


def _clear_workspaces() -> None:
    torch._C._cuda_clearCublasWorkspaces()


class CapturedWork:
    """`work` reads and writes tensors that keep their addresses, and waits for nothing.

    Its results are where they were after the first call: the next call writes over them. Work of
    one `graphs` must not run at the same time.
    """

    def __init__(self, work: Work, graphs: GraphSet) -> None:
        self._work = work
        self._graph: Any = None
        if graphs.device.type == "cuda":
            try:
                self._graph, self._results = graphs.capture(work)
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
