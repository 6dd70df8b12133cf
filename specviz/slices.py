"""Divide long work into slices of time, so that other work can run in between.

Long work calls `give_way` at points where it can wait without harm: between measured runs, and
between rounds whose clocks count only their own work. During that call, other work may run. If the
long work must stop, the call ends it. On the command line there is no other work, so the call does
nothing. This module does not know what the work does.
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
# The number of seconds for which a measured run may continue after its slice of time has ended.
INSIDE_SECONDS = 0.5


class Stopped(BaseException):
    """An error that `give_way` and `check_stop` raise to end the work of a thread.

    Its base class is not Exception, so that `except Exception` does not catch it.
    """


class _Here(threading.local):
    """The data of the current thread: the event that stops its work, and its slices of time."""

    stop: threading.Event | None = None
    slices: InSlices[Any] | None = None


_here = _Here()


def check_stop() -> None:
    """Raise Stopped if the work of this thread must stop."""
    if _here.stop is not None and _here.stop.is_set():
        raise Stopped


def give_way(is_inside: bool = False) -> None:
    """Let other work run if the current slice of time is over.

    `is_inside` is True if the caller is between two rounds of one measured run. Other work then
    waits up to INSIDE_SECONDS longer, so that only long runs are interrupted. Raises Stopped if the
    work must stop.
    """
    check_stop()
    if _here.slices is not None:
        _here.slices.give_way(INSIDE_SECONDS if is_inside else 0.0)


def giving_way(steps: Iterable[T]) -> Iterator[T]:
    """Yield the rounds of a measured run, and let other work run between them.

    The caller's clock must count only the work of the rounds, not the time between them.
    """
    for step in steps:
        yield step
        give_way(is_inside=True)


def own_time() -> float:
    """Return `time.perf_counter` minus the time in which `give_way` let other work run."""
    return time.perf_counter() - (_here.slices.away if _here.slices is not None else 0.0)


def stoppable(steps: Iterator[T], stop: threading.Event) -> Generator[T]:
    """Yield the items of `steps`, but let the event `stop` end the work that produces them.

    If `stop` is set, the work on the next item ends at its next call of `check_stop`.
    """
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
    """Yield the items of `steps` until `stop` is set, even if that happens during a step."""
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
    """An iterator over the items of `make()`, which also yields None when other work may run.

    The work runs in a thread of its own, because functions that it calls may call `give_way`. This
    thread runs only while the caller waits for the next item, so the work and the caller never run
    at the same time.
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
        self.away = 0.0  # total seconds in which other work ran instead of this work
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
        """End the work the next time that it calls `give_way`, `tell` or `check_stop`.

        The work can then free its resources.
        """
        self._is_closed = True
        while self._thread is not None and not self._has_ended:
            kind, _ = self._moved()
            self._has_ended = kind in ("end", "error")

    def give_way(self, more: float = 0.0) -> None:
        """Let other work run if the slice of time ended at least `more` seconds ago."""
        if self._clock() >= self._until + more:
            self._hand("away", None)

    def tell(self, item: T) -> None:
        """Pass an item from the work to the caller of the iterator. The work calls this method.

        Raises Stopped if the work must stop.
        """
        self._hand("item", item)
        check_stop()

    def _moved(self) -> tuple[str, Any]:
        """Let the work run until it hands over its next item, or until it ends."""
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
    """Yield the lines that `work` reports, and None when other work may run.

    Return the result of `work`.

    The work runs only while the caller waits for the next line. If `stop` is set, the work ends and
    the result is None. An error in the work is raised here.
    """
    outcome: list[T] = []

    def lines() -> Generator[str]:
        outcome.append(work(slices.tell))
        yield from ()

    slices = InSlices(lines, stop)
    with closing(slices):
        yield from slices
    return outcome[0] if outcome else None
