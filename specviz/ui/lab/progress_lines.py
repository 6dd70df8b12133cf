"""Work that tells its progress by calling back, as an iterator that yields each line.

The work runs in a thread of its own while the iterator waits for it; whoever closes the iterator
waits until the work has really ended, so that two never decode at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from queue import Empty, SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")
Tell = Callable[[str], None]
LOOK_SECONDS = 0.25


class Stopped(Exception):
    """Raised inside the work, at the next word that it tells."""


def progress_lines(
    work: Callable[[Tell], Result], stop: threading.Event
) -> Generator[str | None, None, Result | None]:
    """Yield each line that `work` tells, None while there is none; return its result.

    Once `stop` is set the work ends at its next line, and the result is None. What the work raises
    is raised here.
    """
    lines: SimpleQueue[str] = SimpleQueue()
    outcome: list[Result] = []
    errors: list[Exception] = []

    def tell(line: str) -> None:
        lines.put(line)
        if stop.is_set():
            raise Stopped

    def run() -> None:
        try:
            outcome.append(work(tell))
        except Stopped:
            pass
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while thread.is_alive() or not lines.empty():
            try:
                yield lines.get(timeout=LOOK_SECONDS)
            except Empty:
                yield None
    finally:
        if thread.is_alive():
            stop.set()
            thread.join()
    if errors:
        raise errors[0]
    return outcome[0] if outcome else None
