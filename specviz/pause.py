"""A gate before each turn of a run: held, let through turn by turn, opened, or ended.

Whoever iterates a run asks the gate before the next event is pulled; the run is a chain of
generators, so while the gate is closed its decoder really waits, and no lane's clock counts the
wait, for each counts its own steps only. Nobody stands before a gate: a run that is held yields
None, and whoever drives it turns to another one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from enum import Enum

from specviz.decoding.race import LaneEvent
from specviz.errors import InputError
from specviz.records import FinishReason, Round


class GateAnswer(Enum):
    """What a gate says to who wants a turn."""

    TAKEN = "taken"
    HELD = "held"
    ENDED = "ended"


class Gate:
    """One run's gate, open at first; any thread may work it. Once it has ended it stays so."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._allowed: int | None = None  # turns; None: as many as there are
        self._is_ended = False

    @property
    def is_paused(self) -> bool:
        """Whether the next turn has to be allowed first."""
        with self._lock:
            return self._allowed == 0 and not self._is_ended

    @property
    def is_open(self) -> bool:
        """Whether every turn is allowed."""
        with self._lock:
            return self._allowed is None and not self._is_ended

    def pause(self) -> None:
        """Hold the next turn; turns that were allowed before count no more."""
        self._set(0)

    def advance(self, turns: int = 1) -> None:
        """Let so many turns more through, then hold."""
        if turns < 1:
            raise InputError(f"turns must be 1 or more, got {turns}")
        with self._lock:
            self._allowed = (self._allowed or 0) + turns

    def resume(self) -> None:
        """Open."""
        self._set(None)

    def release(self) -> None:
        """End: whoever wants a turn is told to stop, and so is everybody after."""
        with self._lock:
            self._is_ended = True

    def take_turn(self) -> GateAnswer:
        """A turn, where one is allowed."""
        with self._lock:
            if self._is_ended:
                return GateAnswer.ENDED
            if self._allowed == 0:
                return GateAnswer.HELD
            if self._allowed is not None:
                self._allowed -= 1
            return GateAnswer.TAKEN

    def _set(self, allowed: int | None) -> None:
        with self._lock:
            self._allowed = allowed


def in_turns(events: Iterable[LaneEvent], gate: Gate, main: str) -> Iterator[LaneEvent | None]:
    """The events as long as the gate lets them through, None while it holds them.

    What is left when the gate ends is never asked for. A turn is everything up to a round of the
    lane named `main` and that round, so one turn advances a run by one round. Once that lane has
    ended each event of the others is a turn.
    """
    source, is_turn, is_over = iter(events), True, False
    while True:
        answer = gate.take_turn() if is_turn else GateAnswer.TAKEN
        if answer is GateAnswer.ENDED:
            return
        if answer is GateAnswer.HELD:
            yield None
            continue
        try:
            event = next(source)
        except StopIteration:
            return
        yield event
        is_main = event.lane == main
        is_over = is_over or (is_main and isinstance(event.event, FinishReason))
        is_turn = is_over or (is_main and isinstance(event.event, Round))
