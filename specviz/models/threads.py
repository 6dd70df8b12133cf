"""Set the number of CPU threads for a pair, and run all decoding in one thread.

`torch.set_num_threads` affects the calling thread and threads that start later, but not the threads
that a pool already has. So one separate thread decodes everything, and the threads in the web
server's pool do not matter.
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

# The number of parameters below which a model is faster on one thread than on two, because two
# threads take longer to synchronise than to compute. On two cores, the bundled target makes 1.2
# times as many tokens per second with one thread.
SMALL_PARAMETERS = 50_000_000
_EVERY_THREAD = torch.get_num_threads()


def use_threads(target: ModelInfo, environment: Environment) -> None:
    """Set the number of torch threads.

    The number is SPECVIZ_THREADS if that is set. Otherwise it is 1 for a small target, and torch's
    default for a larger target.
    """
    fitting = 1 if target.parameters < SMALL_PARAMETERS else _EVERY_THREAD
    torch.set_num_threads(environment.threads or fitting)


def thread_count() -> int:
    """Return how many threads torch uses for the work that the current thread gives it."""
    return torch.get_num_threads()


class _Worker:
    """A thread that runs calls in the order in which they arrive.

    It is a daemon thread, so it does not delay the end of the program.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, call: Callable[[], T]) -> Future[T]:
        """Put a call into the queue, and return the future of its result without waiting."""
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
            # This frees the objects of the ended run now; otherwise the variables would hold them
            # until the next call.
            del call, answer


_worker = _Worker()


def begin_in_decoding_thread(call: Callable[[], T]) -> Future[T]:
    """Queue a call for the thread that decodes.

    Later calls wait in the queue until this call has ended.
    """
    return _worker.begin(call)


def own_threads(steps: Iterator[T]) -> Generator[T]:
    """Run each step of a run with the number of torch threads that this run has set.

    Between two steps, another run may use the same thread and set another number.
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
