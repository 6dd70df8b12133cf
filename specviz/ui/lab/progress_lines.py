"""Work that tells its progress by calling back, as an iterator that yields each line."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import closing
from typing import TypeVar

from specviz.slices import InSlices

Result = TypeVar("Result")
Tell = Callable[[str], None]


def progress_lines(
    work: Callable[[Tell], Result], stop: threading.Event
) -> Generator[str | None, None, Result | None]:
    """Yield each line that `work` tells, None where it gave way; return its result.

    The work only moves while somebody waits for its next line. Once `stop` is set it ends there,
    and the result is None. What the work raises is raised here.
    """
    outcome: list[Result] = []

    def told() -> Generator[str]:
        outcome.append(work(slices.tell))
        yield from ()

    slices = InSlices(told, stop)
    with closing(slices):
        yield from slices
    return outcome[0] if outcome else None
