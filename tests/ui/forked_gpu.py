"""A stand-in for the package `spaces` of a ZeroGPU Space: each call runs in a forked process.

As with the real package, arguments and results are passed as bytes, and closing a call ends its
process.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from specviz.errors import InputError

_forks = multiprocessing.get_context("fork")


class ForkedGpu:
    """A module with the decorator `GPU`; it records the requested durations."""

    def __init__(self) -> None:
        self.durations: list[int] = []
        self.processes: list[Any] = []

    def GPU(self, task: Callable[..., Iterator[Any]], duration: Callable[..., int]) -> Any:  # noqa: N802
        def call(*given: Any) -> Iterator[Any]:
            self.durations.append(duration(*given))
            ours, theirs = _forks.Pipe(duplex=False)
            process = _forks.Process(
                target=_work, args=(task, pickle.dumps(given), theirs), daemon=True
            )
            self.processes.append(process)
            process.start()
            theirs.close()
            try:
                while True:
                    yield pickle.loads(ours.recv_bytes())
            except EOFError:
                return
            finally:
                process.kill()
                process.join(10)

        return call


def _work(task: Callable[..., Iterator[Any]], given: bytes, out: Connection) -> None:
    for value in task(*pickle.loads(given)):
        out.send_bytes(pickle.dumps(value | {"process": os.getpid()}))
    out.close()


def refuse(request: object) -> Any:
    """Refuse to start, as if every request was wrong."""
    raise InputError("draft must be there, got nothing")
