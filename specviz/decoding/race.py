"""Lanes side by side on fair clocks.

Each lane's clock counts only its own work; the lane whose clock is behind moves next, so none is
ahead of another by more than the step or round that it has just done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from specviz.records import Event, FinishReason


@dataclass(frozen=True, slots=True)
class LaneEvent:
    """What the lane of that name did; `clock` is its own time after it, in seconds."""

    lane: str
    event: Event
    clock: float


def race(lanes: Mapping[str, Iterable[Event]]) -> Iterator[LaneEvent]:
    """Interleave runs by their own clocks until all have ended; of equal ones the first moves."""
    running = {name: iter(events) for name, events in lanes.items()}
    clocks = dict.fromkeys(running, 0.0)
    while running:
        lane = min(running, key=clocks.__getitem__)
        event = next(running[lane])
        if isinstance(event, FinishReason):
            del running[lane]
        else:
            clocks[lane] += event.seconds
        yield LaneEvent(lane, event, clocks[lane])
