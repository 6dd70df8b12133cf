"""A race between several ways of decoding, each measured by a clock of its own.

One way of decoding is a lane. The clock of a lane counts only the work of this lane. The lane whose
clock is behind runs next. So no clock is ahead of another clock by more than one step or round.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from specviz.records import Event, FinishReason


@dataclass(frozen=True, slots=True)
class LaneEvent:
    """An event of a lane.

    `clock` is the time on the lane's own clock after the event, in seconds.
    """

    lane: str
    event: Event
    clock: float


def race(lanes: Mapping[str, Iterable[Event]]) -> Iterator[LaneEvent]:
    """Run all lanes, one step or round at a time, until all have ended.

    The lane whose clock shows the least time runs next. If several clocks show this time, the lane
    that comes first in `lanes` runs.
    """
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
