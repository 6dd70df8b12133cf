"""A gate for a run: it can pause the run, allow single turns, resume the run, or end it.

The loop over the events of a run asks the gate before each turn. The run is a chain of generators,
so its decoder does nothing while the loop waits. No lane's clock counts the pause, because a clock
counts only the lane's own work. No thread waits at a gate: a paused run yields None, and the loop
can continue another run.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from enum import Enum

from specviz.decoding.race import LaneEvent
from specviz.errors import InputError
from specviz.records import FinishReason, Round


class GateAnswer(Enum):
    """The answer of the gate to a run that asks whether it may take a turn."""

    TAKEN = "taken"
    HELD = "held"
    ENDED = "ended"


class Gate:
    """The gate of one run. The gate is open at first: it allows all turns.

    Any thread may call its methods. A run that the gate has ended cannot be continued.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # number of turns that the run may still take; None means no limit
        self._allowed: int | None = None
        self._is_ended = False

    @property
    def is_paused(self) -> bool:
        """Return whether the run must wait before the next turn."""
        with self._lock:
            return self._allowed == 0 and not self._is_ended

    @property
    def is_open(self) -> bool:
        """Return whether the run may take any number of turns."""
        with self._lock:
            return self._allowed is None and not self._is_ended

    def pause(self) -> None:
        """Pause before the next turn. Turns that were allowed earlier are cancelled."""
        self._set(0)

    def advance(self, turns: int = 1) -> None:
        """Allow `turns` more turns, then pause the run. Raises InputError if `turns` is below 1."""
        if turns < 1:
            raise InputError(f"turns must be at least 1, got {turns}")
        with self._lock:
            self._allowed = (self._allowed or 0) + turns

    def resume(self) -> None:
        self._set(None)

    def release(self) -> None:
        """End the run: from now on, every request for a turn is answered with ENDED."""
        with self._lock:
            self._is_ended = True

    def take_turn(self) -> GateAnswer:
        """Ask for a turn: return the gate's answer, and count the turn if it is allowed."""
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
    """Yield the events of a run while the gate allows them, and None while it is paused.

    After the gate has ended the run, this function requests no more events. A turn consists of all
    events up to and including a round of the lane `main`, so one turn advances the run by one
    round. Once that lane has ended, each event of the other lanes is a turn.
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
