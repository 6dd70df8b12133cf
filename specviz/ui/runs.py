"""The races that people asked for: who waits, who runs, what each has sent so far.

Knows nothing of Gradio, models or the content of a message. A ticket is a random word that the
browser made up; whoever does not know it can neither see nor stop the run behind it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from specviz.errors import InputError
from specviz.experiments.run.forking import ForkRequest
from specviz.experiments.run.profiling import ProfileRequest
from specviz.experiments.run.racing import RaceRequest
from specviz.pause import Gate
from specviz.ui.lab.lab_order import LabOrder

Request = RaceRequest | ForkRequest | ProfileRequest | LabOrder
MAX_WAITING = 24
AWAY_SECONDS = 5.0  # a waiting browser that has not asked for so long no longer counts
# what others are told of a run; an order of the lab tells it itself
TITLES: dict[type, str] = {
    RaceRequest: "a race",
    ForkRequest: "a fork",
    ProfileRequest: "a profile",
}
KEEP_SECONDS = 120.0  # how long a finished run can still be refilled from
TICKET_LENGTHS = range(16, 65)


class State(Enum):
    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"


@dataclass(slots=True)
class Run:
    """One race, or one opened recording, from the press of the button to its last message."""

    ticket: str
    request: Request | None  # None: a recording, which needs no model
    seen: float
    state: State = State.WAITING
    stop: threading.Event = field(default_factory=threading.Event)
    gate: Gate = field(default_factory=Gate)
    messages: list[str] = field(default_factory=list)
    ends: float | None = None  # likely, as its own progress told last

    @property
    def title(self) -> str:
        request = self.request
        return request.title if isinstance(request, LabOrder) else TITLES[type(request)]


class Runs:
    """All runs of this server, oldest first."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._runs: dict[str, Run] = {}

    def join(self, ticket: str, request: Request, is_held: bool = False) -> None:
        """Take a place in the queue; raises InputError where the ticket or the queue is full.

        A run that is held waits before its first round.
        """
        with self._lock:
            if len(self._waiting()) >= MAX_WAITING:
                raise InputError(f"{MAX_WAITING} runs are waiting already: try again in a minute")
            run = self._add(ticket, request)
            if is_held:
                run.gate.pause()

    def begin(self, ticket: str) -> Run:
        """A recording is opened: it waits for no one; raises InputError for a known ticket."""
        with self._lock:
            run = self._add(ticket, None)
            run.state = State.RUNNING
            return run

    def _add(self, ticket: str, request: Request | None) -> Run:
        self._forget_old()
        if len(ticket) not in TICKET_LENGTHS or ticket in self._runs:
            raise InputError("ticket must be a new random word")
        self._runs[ticket] = Run(ticket, request, self._clock())
        return self._runs[ticket]

    def enter(self, ticket: str) -> Run | None:
        """The queue reached this ticket: run it, unless it was stopped or is unknown."""
        with self._lock:
            run = self._runs.get(ticket)
            if run is None or run.state is not State.WAITING:
                return None
            run.state = State.RUNNING
            return run

    def leave(self, run: Run) -> None:
        """The race ended, for whatever reason."""
        with self._lock:
            run.state = State.DONE
            run.seen = self._clock()

    def stop(self, ticket: str) -> None:
        """Ask a run to end; one that still waits ends at once."""
        with self._lock:
            run = self._runs.get(ticket)
            if run is not None:
                run.stop.set()
                run.gate.release()
                run.state = State.DONE if run.state is State.WAITING else run.state

    def expect(self, run: Run, seconds_left: float | None) -> None:
        """A run told how long it will likely go on, None where it does not know."""
        with self._lock:
            run.ends = None if seconds_left is None else self._clock() + seconds_left

    def gate(self, ticket: str) -> Gate | None:
        """The gate of a run that goes on, None where there is none."""
        with self._lock:
            run = self._runs.get(ticket)
            return run.gate if run is not None and run.state is State.RUNNING else None

    def look(self, ticket: str, after: int) -> dict[str, object]:
        """Where the run stands: its state, how many are ahead, its messages from `after` on.

        `running` is what it waits for: {"title", "seconds_left": None where that is not known}.
        """
        with self._lock:
            run = self._runs.get(ticket)
            if run is None:
                return {"state": "unknown", "ahead": 0, "running": None, "messages": []}
            run.seen = self._clock()
            self._end_abandoned()
            messages = run.messages[max(0, after) :]
            ahead = self._ahead(run)
            return {
                "state": run.state.value,
                "ahead": ahead,
                "running": self._running() if ahead else None,
                "messages": messages,
            }

    def _end_abandoned(self) -> None:
        """A run that is held by a page which went away must not keep the others waiting."""
        limit = self._clock() - 2 * AWAY_SECONDS
        for run in self._runs.values():
            if run.gate.is_paused and run.seen < limit:
                run.gate.release()

    def _ahead(self, run: Run) -> int:
        if run.state is not State.WAITING:
            return 0
        runs = self._runs.values()
        running = sum(each.state is State.RUNNING and each.request is not None for each in runs)
        return running + self._waiting().index(run)

    def _running(self) -> dict[str, object] | None:
        for run in self._runs.values():
            if run.state is State.RUNNING and run.request is not None:
                left = None if run.ends is None else max(0.0, run.ends - self._clock())
                return {"title": run.title, "seconds_left": left}
        return None

    def _waiting(self) -> list[Run]:
        limit = self._clock() - AWAY_SECONDS
        runs = self._runs.values()
        return [run for run in runs if run.state is State.WAITING and run.seen >= limit]

    def _forget_old(self) -> None:
        limit = self._clock() - KEEP_SECONDS
        for ticket, run in tuple(self._runs.items()):
            if run.state is not State.RUNNING and run.seen < limit:
                del self._runs[ticket]
