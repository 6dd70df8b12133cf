"""How many processor threads a pair runs on, and the one thread that decodes.

`torch.set_num_threads` reaches the thread that calls it and threads that begin later, not those of
a pool that are there already. So whatever pool serves the page, decoding happens in one thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

import torch

from specviz.environment import Environment
from specviz.records import ModelInfo

T = TypeVar("T")

# Operations of a model this small end sooner on one thread than two threads take to meet: on two
# cores the bundled target makes 1.2 times as many tokens per second alone.
SMALL_PARAMETERS = 50_000_000
_EVERY_THREAD = torch.get_num_threads()


def use_threads(target: ModelInfo, environment: Environment) -> None:
    """SPECVIZ_THREADS; without it one thread for a small target, torch's own choice for others."""
    fitting = 1 if target.parameters < SMALL_PARAMETERS else _EVERY_THREAD
    torch.set_num_threads(environment.threads or fitting)


class _Worker:
    """One thread that runs calls in their order; a daemon, so that a held run ends no later."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """Have the call run behind those that came before it, and wait for nothing."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="decoding", daemon=True)
                self._thread.start()
        answer: Future[T] = Future()
        self._calls.put((call, answer))
        return answer

    def _serve(self) -> None:
        while True:
            call, answer = self._calls.get()
            try:
                answer.set_result(call())
            except BaseException as error:
                answer.set_exception(error)
            del call, answer  # what a run held is free at once


_worker = _Worker()


def begin_in_decoding_thread(call: Callable[[], T]) -> Future[T]:
    """Have the decoding thread make the call as soon as it is free; what comes later waits."""
    return _worker.begin(call)


def own_threads(steps: Iterator[T]) -> Generator[T]:
    """The same steps, each on as many torch threads as the one before it left.

    Between two steps another run may have set its own number in the same thread.
    """
    count = None
    try:
        while True:
            if count is not None and count != torch.get_num_threads():
                torch.set_num_threads(count)
            try:
                found = next(steps)
            except StopIteration:
                return
            count = torch.get_num_threads()
            yield found
    finally:
        close = getattr(steps, "close", None)
        if close is not None:
            close()
