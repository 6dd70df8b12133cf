"""Serving engines that answer the prompt of a race, once for every repeat of the race.

The servers alternate (with drafts, without, without, with, …). If the machine slowly gets faster or
slower, this affects both alike. The numbers that are shown come from one repeat, so that they agree
with each other: see `repeats`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from specviz.experiments.run.racing import RaceRequest, start_race
from specviz.experiments.run.repeats import Repeats, chosen, repeated
from specviz.metrics import RunSummary, exceeds, summarise
from specviz.records import SERVER, Lane, LaneKind, TokenOrigin, Trace


@dataclass(frozen=True, slots=True)
class AskedServers:
    """The servers' answers: one trace per repeat, with only the servers' lanes filled."""

    traces: tuple[Trace, ...]

    @property
    def repeats(self) -> Repeats:
        """Return which repeat is shown, chosen by the servers' speedup.

        With a single server there is no speedup, so its tokens per second decide.
        """
        numbers = [self._number(each) for each in self.traces]
        return chosen(numbers, [_is_disturbed(each) for each in self.traces])

    @property
    def shown(self) -> Trace:
        return self.traces[self.repeats.shown]

    @property
    def summary(self) -> RunSummary:
        return summarise(self.shown)

    @property
    def speedups(self) -> tuple[float, ...]:
        """Return the speedup of the server with drafts, for each counted repeat (see `Repeats`)."""
        found = (summarise(self.traces[i]).server_speedup for i in self.repeats.counted)
        return tuple(each for each in found if each is not None)

    def rates(self, name: str) -> tuple[float, ...]:
        """Return one server's tokens per second, for each counted repeat (see `Repeats`)."""
        lanes = (self.traces[index].lane(name) for index in self.repeats.counted)
        return tuple(each for lane in lanes if (each := _rate(lane)))

    def _number(self, trace: Trace) -> float:
        speedup = summarise(trace).server_speedup
        lanes = [each for each in trace.lanes if each.kind is LaneKind.ENGINE]
        return _rate(lanes[0]) if speedup is None else speedup


def ask_servers(
    request: RaceRequest, repeats: int, progress: Callable[[str], None] = lambda line: None
) -> AskedServers:
    """Send the prompt to every server `repeats` times; stop early if one does not answer.

    If other work disturbed some repeat, further repeats follow, at most `repeats` of them.
    """

    def once(number: int) -> Trace:
        with closing(start_race(request)) as race:
            for server in request.servers[:: -1 if number % 2 else 1]:
                progress(f"asking the {server.lane} at {server.address}, {number + 1} of {repeats}")
                for event in race.ask(server):
                    race.take(server.lane, event)
            return race.trace()

    def is_silent(trace: Trace) -> bool:
        return not all(trace.lane(server.lane).arrivals for server in request.servers)

    return AskedServers(tuple(repeated(once, _is_disturbed, repeats, is_silent)))


def forwards_of(lane: Lane) -> int | None:
    """Return the target forwards of a server's answer, including the prefill.

    The result is None if the server does not report which tokens were accepted drafts.
    """
    origins = [each.origin for each in lane.arrivals]
    if not origins or None in origins:
        return None
    return 1 + sum(each is not TokenOrigin.ACCEPTED for each in origins[:-1])


def tokens_per_forward(lane: Lane) -> float | None:
    """Return the server's tokens per forward after the prefill; None if forwards are unknown."""
    forwards = forwards_of(lane)
    return (len(lane.arrivals) - 1) / (forwards - 1) if forwards and forwards > 1 else None


def _rate(lane: Lane) -> float:
    return len(lane.arrivals) / lane.seconds if lane.arrivals and lane.seconds > 0 else 0.0


def _is_disturbed(trace: Trace) -> bool:
    """Return whether the server's speedup is above its tokens per forward.

    This is impossible unless other work disturbed the times.
    """
    speedup = summarise(trace).server_speedup
    drafted = next((each for each in trace.lanes if each.name == SERVER), None)
    if speedup is None or drafted is None:
        return False
    return exceeds(speedup, tokens_per_forward(drafted))
