"""Two lanes side by side on fair clocks.

Each lane's clock counts only its own work; the lane whose clock is behind moves next, so at every
moment both stand at the same own time. Knows nothing of what a lane does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from specviz.records import BaselineStep, FinishReason, Prefill, Round

Event = Prefill | Round | BaselineStep | FinishReason


class Lane(Enum):
    BASELINE = "baseline"
    SPECULATIVE = "speculative"


@dataclass(frozen=True, slots=True)
class LaneEvent:
    """What one lane did; `clock` is the lane's own time after it, in seconds."""

    lane: Lane
    event: Event
    clock: float


def race(baseline: Iterable[Event], speculative: Iterable[Event]) -> Iterator[LaneEvent]:
    """Interleave two runs by their own clocks until both have ended."""
    running = {Lane.BASELINE: iter(baseline), Lane.SPECULATIVE: iter(speculative)}
    clocks = dict.fromkeys(running, 0.0)
    while running:
        lane = min(running, key=clocks.__getitem__)
        event = next(running[lane])
        if isinstance(event, FinishReason):
            del running[lane]
        else:
            clocks[lane] += event.seconds
        yield LaneEvent(lane, event, clocks[lane])
