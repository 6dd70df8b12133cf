"""Long work in slices: it gives way at places of its own choice, hears a stop there, and counts
only its own time.

Work calls `give_way` where it can be left for a while without harm: between measured runs, and
between rounds whose clocks count their own steps. On the command line nobody wants to be let by,
and the call does nothing. Knows nothing of what is done in a slice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Tell = Callable[[str], None]
SLICE_SECONDS = 0.5
INSIDE_SECONDS = 0.5  # that a measured run is left alone for before others are let by in it


class Stopped(BaseException):
    """Raised at the next place to give way in work that is to stop.

    No Exception: what turns all failures into one sentence must let it through.
    """


class _Here(threading.local):
    """What the calling thread works on."""

    stop: threading.Event | None = None
    slices: InSlices[Any] | None = None


_here = _Here()


def check_stop() -> None:
    """Raise Stopped if the work of this thread is to stop."""
    if _here.stop is not None and _here.stop.is_set():
        raise Stopped


def give_way(is_inside: bool = False) -> None:
    """Let others by if this slice has lasted long enough. Raises Stopped as `check_stop` does.

    `is_inside`: between two rounds of one measured run, which only a long one is left in.
    """
    check_stop()
    if _here.slices is not None:
        _here.slices.give_way(INSIDE_SECONDS if is_inside else 0.0)


def letting_by(steps: Iterable[T]) -> Iterator[T]:
    """The rounds of a measured run whose clocks count their own steps; others come in between."""
    for step in steps:
        yield step
        give_way(is_inside=True)


def own_time() -> float:
    """`time.perf_counter`, but for what others have taken while the calling work gave way."""
    return time.perf_counter() - (_here.slices.away if _here.slices is not None else 0.0)


def heeding(steps: Iterator[T], stop: threading.Event) -> Generator[T]:
    """The same steps; what each of them does hears `stop` at the places where it gives way."""
    try:
        while True:
            before, _here.stop = _here.stop, stop
            try:
                found = next(steps)
            except StopIteration:
                return
            finally:
                _here.stop = before
            yield found
    finally:
        close = getattr(steps, "close", None)
        if close is not None:
            close()


def until_stopped(steps: Iterable[T], stop: threading.Event) -> Iterator[T]:
    """The steps until `stop` is set, be it in the middle of one."""
    if stop.is_set():
        return
    try:
        for step in steps:
            yield step
            if stop.is_set():
                return
    except Stopped:
        return


class InSlices(Generic[T]):
    """An iterator over what `make` yields, and None wherever the work behind it gave way.

    The work has a thread of its own, for it may give way deep inside of itself. It only moves
    while somebody waits in `next`: two never work at once.
    """

    def __init__(
        self,
        make: Callable[[], Generator[T]],
        stop: threading.Event,
        seconds: float = SLICE_SECONDS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._make = make
        self._stop = stop
        self._seconds = seconds
        self._clock = clock
        self.away = 0.0  # seconds that others had
        self._until = 0.0
        self._is_closed = self._has_ended = False
        self._go: SimpleQueue[None] = SimpleQueue()
        self._given: SimpleQueue[tuple[str, Any]] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def __iter__(self) -> InSlices[T]:
        return self

    def __next__(self) -> T | None:
        if self._has_ended or self._is_closed:
            raise StopIteration
        kind, value = self._moved()
        if kind == "item":
            return value  # type: ignore[no-any-return]
        if kind == "away":
            return None
        self._has_ended = True
        if kind == "error":
            raise value
        raise StopIteration

    def close(self) -> None:
        """End the work: it hears so where it stands, and frees what it holds."""
        self._is_closed = True
        while self._thread is not None and not self._has_ended:
            kind, _ = self._moved()
            self._has_ended = kind in ("end", "error")

    def give_way(self, more: float = 0.0) -> None:
        """From the work's own thread: see `give_way`; `more` seconds beside a slice's."""
        if self._clock() >= self._until + more:
            self._hand("away", None)

    def tell(self, item: T) -> None:
        """From the work's own thread, deep inside of it: give an item. Raises Stopped."""
        self._hand("item", item)
        check_stop()

    def _moved(self) -> tuple[str, Any]:
        """Let the work move until it hands something over."""
        self._until = self._clock() + self._seconds
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="slices", daemon=True)
            self._thread.start()
        self._go.put(None)
        return self._given.get()

    def _work(self) -> None:
        _here.stop, _here.slices = self._stop, self
        self._go.get()
        try:
            with closing(self._make()) as items:
                for item in items:
                    self._hand("item", item)
        except Stopped:
            self._given.put(("end", None))
        except BaseException as error:
            self._given.put(("error", error))
        else:
            self._given.put(("end", None))

    def _hand(self, kind: str, value: Any) -> None:
        began = time.perf_counter()
        self._given.put((kind, value))
        self._go.get()
        self.away += time.perf_counter() - began
        if self._is_closed:
            raise Stopped


def progress_lines(
    work: Callable[[Tell], T], stop: threading.Event
) -> Generator[str | None, None, T | None]:
    """Yield each line that `work` tells by calling back, None where it gave way; return its result.

    The work only moves while somebody waits for its next line. Once `stop` is set it ends there,
    and the result is None. What the work raises is raised here.
    """
    outcome: list[T] = []

    def told() -> Generator[str]:
        outcome.append(work(slices.tell))
        yield from ()

    slices = InSlices(told, stop)
    with closing(slices):
        yield from slices
    return outcome[0] if outcome else None
