"""Work on tensors at fixed addresses, captured as a CUDA graph and replayed by one call.

A replay starts all kernels of the graph at once, without Python in between. Without CUDA, or if a
capture failed, each call runs the work again and copies its results to the same addresses. A caller
must read a result before the next call. A caller that reads it later gets wrong numbers on every
device, so tests find this mistake even without CUDA.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from specviz.models.accelerator import is_accelerator

Work = Callable[[], tuple[Tensor, ...]]

# The number of calls before a capture. The first calls of the work choose kernels and allocate
# memory, which must not happen during a capture.
WARM_UPS = 2
_capture = threading.Lock()


class GraphSet:
    """The memory and the stream of graphs that never run at the same time.

    A graph uses the cuBLAS workspace of the stream on which it was captured. Graphs of a draft and
    its target may run at the same time, so each of these models has its own set, with its own
    stream. The workspaces are cleared before and after a capture, as in PyTorch's graph trees. The
    workspace of a graph then belongs to the memory of its set, and nothing else uses or frees it.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._pool: Any = None
        self._stream: Any = None

    def capture(self, work: Work) -> tuple[Any, tuple[Tensor, ...]]:
        """Warm up, then capture the work. Return the graph and its results.

        A lock allows only one capture at a time. After the call, even after an error, the current
        stream is the one from before the call. The allocator's free memory is released only if the
        capture runs out of memory, because the next prompt would have to allocate it again.
        """
        with _capture, torch.cuda.device(self.device):
            try:
                return self._warm_and_captured(work)
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                return self._warm_and_captured(work)

    def _warm_and_captured(self, work: Work) -> tuple[Any, tuple[Tensor, ...]]:
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
        except BaseException:
            self._drop_pool()
            raise
        finally:
            _clear_workspaces()

    def _captured(self, work: Work) -> tuple[Any, tuple[Tensor, ...]]:
        """Capture the work as a graph.

        The function does not use `torch.cuda.graph`: if the end of a capture fails,
        `torch.cuda.graph` does not restore the current stream.
        """
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self._stream):
            # Other threads may allocate memory during the capture, because the rules of a capture
            # apply only to this thread.
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                results = work()
            except BaseException:
                # The work has already failed, so this call fails as well. Its error would hide the
                # cause.
                with suppress(RuntimeError):
                    graph.capture_end()
                raise
            graph.capture_end()
        return graph, results

    def _drop_pool(self) -> None:
        """Use a new memory pool and stream for the next capture.

        A failed capture leaves the old pool and stream in an undefined state. If the end of a
        capture fails, the allocator even continues to fill the old pool. Earlier graphs keep that
        pool alive.
        """
        pool, self._pool, self._stream = self._pool, None, None
        # Torch raises an error here if the failed capture has already stopped using the pool.
        with suppress(RuntimeError):
            _leave_pool(self.device, pool)


def _leave_pool(device: torch.device, pool: Any) -> None:
    index = torch.cuda.current_device() if device.index is None else device.index
    torch._C._cuda_endAllocateToPool(index, pool)
    torch._C._cuda_releasePool(index, pool)


def _clear_workspaces() -> None:
    torch._C._cuda_clearCublasWorkspaces()


class CapturedWork:
    """A function that replays `work`.

    `work` uses tensors at fixed addresses and never waits for the device.

    The results stay at the addresses of the first call, and the next call overwrites them. Two
    pieces of work with the same `graphs` must not run at the same time.
    """

    def __init__(self, work: Work, graphs: GraphSet) -> None:
        self._work = work
        self._graph: Any = None
        if is_accelerator(graphs.device):
            try:
                self._graph, self._results = graphs.capture(work)
                return
            except RuntimeError as error:  # Without a graph, the work is slower, but it still runs.
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
