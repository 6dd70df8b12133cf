"""A gate before each turn of a run: held, let through turn by turn, opened, or ended.

Whoever iterates a run asks the gate before it pulls the next
event; the run is a chain of generators, so while the gate is closed its decoder really waits, and
no lane's clock counts the wait, for each counts its own steps only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

from specviz.decoding.race import LaneEvent
from specviz.errors import InputError
from specviz.records import FinishReason, Round

PATIENCE_SECONDS = 120.0  # that a paused run holds on to its models


class Gate:
    """One run's gate, open at first; any thread may work it.

    A gate that has ended, by `release` or because nobody touched it for `patience_seconds` while
    somebody stood before it, lets nobody through any more.
    """

    def __init__(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._patience_seconds = patience_seconds
        self._changed = threading.Condition()
        self._allowed: int | None = None  # turns; None: as many as there are
        self._touched = 0  # how often it was worked
        self._is_ended = self._timed_out = False

    @property
    def is_paused(self) -> bool:
        """Whether the next turn has to be allowed first."""
        with self._changed:
            return self._allowed == 0 and not self._is_ended

    @property
    def timed_out(self) -> bool:
        """Whether it has ended because nobody came back."""
        with self._changed:
            return self._timed_out

    def pause(self) -> None:
        """Hold whoever comes next; turns that were allowed before count no more."""
        self._set(0)

    def advance(self, turns: int = 1) -> None:
        """Let so many turns more through, then hold."""
        if turns < 1:
            raise InputError(f"turns must be 1 or more, got {turns}")
        with self._changed:
            self._set((self._allowed or 0) + turns)

    def resume(self) -> None:
        """Open."""
        self._set(None)

    def release(self) -> None:
        """End: whoever waits is told to stop, and so is everybody after."""
        with self._changed:
            self._is_ended = True
            self._changed.notify_all()

    def wait_turn(self) -> bool:
        """Wait until a turn is allowed and take it; False: the run has to end instead."""
        with self._changed:
            while self._allowed == 0 and not self._is_ended:
                if not self._is_worked():
                    self._is_ended = self._timed_out = True
            if self._is_ended:
                return False
            if self._allowed is not None:
                self._allowed -= 1
            return True

    def _is_worked(self) -> bool:
        """Wait until somebody works the gate; False where nobody does in time."""
        touched = self._touched
        return self._changed.wait_for(
            lambda: self._is_ended or self._touched != touched, self._patience_seconds
        )

    def _set(self, allowed: int | None) -> None:
        with self._changed:
            self._allowed = allowed
            self._touched += 1
            self._changed.notify_all()


def in_turns(events: Iterable[LaneEvent], gate: Gate, main: str) -> Iterator[LaneEvent]:
    """The events as long as the gate lets them through; what is left is never asked for.

    A turn is everything up to a round of the lane named `main` and that round, so one turn advances
    a run by one round. Once that lane has ended each event of the others is a turn.
    """
    source, is_turn, is_over = iter(events), True, False
    while not is_turn or gate.wait_turn():
        try:
            event = next(source)
        except StopIteration:
            return
        yield event
        is_main = event.lane == main
        is_over = is_over or (is_main and isinstance(event.event, FinishReason))
        is_turn = is_over or (is_main and isinstance(event.event, Round))
