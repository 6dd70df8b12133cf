"""Charts, facts and table rows of watched engines, from the page's state and a new reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from specviz.errors import InputError, is_number, short
from specviz.figures.engine_charts import over_time_figure, positions_figure
from specviz.figures.theme import Figure
from specviz.serving.engine_address import EngineAddress
from specviz.serving.engine_counters import MOST_POSITIONS, EngineCounters
from specviz.serving.engine_replicas import MOST_REPLICAS, CountedInterval, EngineReading

MOST_READINGS = 300  # largest number of points in a chart; they cover ten minutes
UNKNOWN = "not reported"
NOTHING = "nothing drafted"
ROW_HEADS = (
    *("engine", "acceptance rate", "draft utilization", "tokens per forward"),
    "tokens per second",
    *("running", "waiting", "started again"),
)
_LARGEST = 1e15  # largest count that is accepted when the page sends its state back
_COUNTS = tuple(each.name for each in fields(EngineCounters) if each.name != "per_position")
# Name of a chart -> its title, and the metrics of which the engine must report at least one.
_CHARTS = {
    "draft_utilization": ("draft utilization", {"drafted", "latest_utilization"}),
    "positions": ("accepted by guess", {"drafted", "per_position"}),
    "length": ("tokens per forward", {"drafted", "latest_length"}),
    "rate": ("tokens per second", {"tokens"}),
    "first": ("first token", {"first_tokens"}),
    "requests": ("requests running and waiting", {"running", "waiting"}),
    "cache": ("cache in use", {"cache"}),
}
_OF_DRAFTS = ("draft_utilization", "positions", "length")
_UNDRAFTED = "nothing was drafted since you attached"


@dataclass(frozen=True, slots=True)
class WatchedServer:
    """The state of one watched server.

    It holds the counters at the last reading, and the counts since the page began to watch. `at` is
    the time of the last reading, or None if there was none.
    """

    at: float | None = None
    last: EngineCounters = EngineCounters()
    total: EngineCounters = EngineCounters()
    restarts: float = 0

    @classmethod
    def read(cls, value: Any) -> WatchedServer:
        """Read the state from the dict that `asdict` made of it.

        Raises InputError for any other value.
        """
        _check_names(value, cls)
        _check_numbers([value["at"]], may_lack=True)
        _check_numbers([value["restarts"]])
        last, total = (_counters(value[name]) for name in ("last", "total"))
        return cls(value["at"], last, total, value["restarts"])

    def then(self, now: EngineReading) -> tuple[WatchedServer, CountedInterval | None]:
        """Return the state after a new reading, and the interval since the last reading.

        The interval is None after the first reading, and if `now` is the same reading as before.
        """
        if self.at is None:
            return replace(self, at=now.at, last=now.metrics.counters), None
        # The server keeps one reading for all pages, so a page may get the same reading twice.
        if now.at <= self.at:
            return self, None
        interval = CountedInterval.between(self.last, self.at, now)
        total = EngineCounters.total([self.total, interval.counted])
        restarts = self.restarts + interval.restarts
        return WatchedServer(now.at, now.metrics.counters, total, restarts), interval


@dataclass(frozen=True, slots=True)
class WatchedPoint:
    """One point in time of the charts, with the numbers of all servers together.

    `at` is in seconds since 1970. `CountedInterval` describes the other fields.
    """

    at: float
    tokens_per_second: float
    draft_utilization: float | None
    block_efficiency: float | None
    first_token: float | None
    running: float | None
    waiting: float | None
    cache: float | None

    @classmethod
    def read(cls, value: Any) -> WatchedPoint:
        """Read a point from the dict that `asdict` made of it.

        Raises InputError for any other value.
        """
        _check_names(value, cls)
        _check_numbers([value["at"], value["tokens_per_second"]])
        _check_numbers(value.values(), may_lack=True)
        return cls(**value)

    @classmethod
    def of(cls, at: float, parts: Sequence[CountedInterval]) -> WatchedPoint:
        """Return one point of the charts at the time `at`.

        `parts` has one interval for each server.
        """
        together = asdict(CountedInterval.together(parts))
        return cls(at, **{each.name: together[each.name] for each in fields(cls)[1:]})


@dataclass(frozen=True, slots=True)
class Watched:
    """The state that the page keeps between two questions: its servers and the chart points."""

    servers: tuple[WatchedServer, ...]
    points: tuple[WatchedPoint, ...] = ()

    @classmethod
    def read(cls, value: Any) -> Watched:
        """Read the state from the dict that `asdict` made of it.

        Raises InputError for any other value.
        """
        _check_names(value, cls)
        servers = _list(value, "servers", MOST_REPLICAS)
        points = _list(value, "points", MOST_READINGS)
        return cls(tuple(map(WatchedServer.read, servers)), tuple(map(WatchedPoint.read, points)))


def shown(
    addresses: Sequence[EngineAddress], answers: Sequence[EngineReading | str], kept: Watched
) -> dict[str, Any]:
    """Return what the page shows after a new reading of the servers at `addresses`.

    For each server, `answers` has a reading, or a sentence that says why there is none. `kept` is
    the state that the page sent with its question.
    """
    if len(kept.servers) != len(addresses):
        raise InputError(
            f"'kept' must have one server for each of the {len(addresses)} addresses in url, "
            f"got {len(kept.servers)}"
        )
    steps = [
        (server, None) if isinstance(answer, str) else server.then(answer)
        for server, answer in zip(kept.servers, answers, strict=True)
    ]
    readings = [each for each in answers if not isinstance(each, str)]
    points = list(kept.points)
    if counted := [interval for _, interval in steps if interval]:
        points.append(WatchedPoint.of(max(each.at for each in readings), counted))
    kept = Watched(tuple(server for server, _ in steps), tuple(points[-MOST_READINGS:]))
    total = EngineCounters.total([each.total for each in kept.servers])
    reported = frozenset[str]().union(*(each.metrics.reported for each in readings))
    uncounted = [name for name, (_, needs) in _CHARTS.items() if not needs & reported]
    undrafted = [] if _has_drafts(kept, total) else [n for n in _OF_DRAFTS if n not in uncounted]
    engines = " and ".join(sorted({each.metrics.engine for each in readings}))
    return {
        "kept": asdict(kept),
        "restarts": sum(each.restarts for each in kept.servers),
        "facts": _facts(kept.points, total, reported),
        "rows": [
            _row(address, answer, *step)
            for address, answer, step in zip(addresses, answers, steps, strict=True)
        ],
        "figures": {
            name: figure
            for name, figure in _figures(kept.points, total).items()
            if name not in (*uncounted, *undrafted)
        },
        "absent": _absent(uncounted, f"{engines} does not count that")
        + _absent(undrafted, _UNDRAFTED),
    }


def _list(value: Mapping[str, Any], name: str, most: int) -> list[Any]:
    found = value[name]
    if not isinstance(found, list) or len(found) > most:
        raise InputError(f"{name} must be a list of at most {most}, got {short(found)}")
    return found


def _counters(value: Any) -> EngineCounters:
    _check_names(value, EngineCounters)
    places = _list(value, "per_position", MOST_POSITIONS)
    _check_numbers([*(value[name] for name in _COUNTS), *places])
    return EngineCounters(**{**value, "per_position": tuple(places)})


def _check_names(value: Any, kind: type[Any]) -> None:
    if not isinstance(value, dict) or set(value) != {each.name for each in fields(kind)}:
        raise InputError(f"'kept' must be the value in the previous answer, got {short(value)}")


def _check_numbers(values: Iterable[Any], *, may_lack: bool = False) -> None:
    for each in values:
        if each is None and may_lack:
            continue
        if not is_number(each) or not 0 <= each <= _LARGEST:
            raise InputError(
                f"each number in 'kept' must be from 0 to {_LARGEST:.0e}, got {short(each)}"
            )


def _has_drafts(kept: Watched, total: EngineCounters) -> bool:
    return total.drafted > 0 or any(each.draft_utilization is not None for each in kept.points)


def _absent(charts: Sequence[str], why: str) -> list[str]:
    """Return a list with one sentence: which charts are missing, and `why`; [] if all are shown."""
    titles = [_CHARTS[name][0] for name in charts]
    listed = " and ".join(filter(None, [", ".join(titles[:-1]), *titles[-1:]]))
    return [f"No chart of {listed}: {why}."] if titles else []


def _figures(points: Sequence[WatchedPoint], total: EngineCounters) -> dict[str, Figure]:
    times = [each.at - points[0].at for each in points]

    def over_time(role: str, name: str, scale: float = 1, is_share: bool = False) -> Figure:
        found = [getattr(each, name) for each in points]
        values = [None if each is None else scale * each for each in found]
        return over_time_figure(times, {role: values}, is_share=is_share)

    requests = {
        "expected": [each.running for each in points],
        "baseline": [each.waiting for each in points],
    }
    return {
        "draft_utilization": over_time("accepted", "draft_utilization", is_share=True),
        "positions": positions_figure(total.acceptance_per_position),
        "length": over_time("expected", "block_efficiency"),
        "rate": over_time("verify_time", "tokens_per_second"),
        "first": over_time("verify_time", "first_token", scale=1000),
        "requests": over_time_figure(times, requests),
        "cache": over_time("accepted", "cache", is_share=True),
    }


def _facts(
    points: Sequence[WatchedPoint], total: EngineCounters, reported: frozenset[str]
) -> list[tuple[str, str]]:
    """Return facts about the servers as pairs of a name and a value.

    Counts cover the time since the page began to watch. Other facts, such as the number of running
    requests, have their current value. A missing value is shown as unknown. `reported` has the
    names of the counters that the engines report.
    """
    now = points[-1] if points else WatchedPoint(0, 0, *[None] * 6)
    undrafted = NOTHING if "drafted" in reported else UNKNOWN
    first = total.first_token
    return [
        *_of_drafts(total, now, undrafted),
        ("drafted tokens", f"{total.drafted:,.0f}" if total.drafted else undrafted),
        ("tokens written", f"{total.tokens:,.0f}"),
        ("prompt tokens read", f"{total.prompt_tokens:,.0f}"),
        ("tokens per second now", _written(now.tokens_per_second, "{:.1f}")),
        ("first token", UNKNOWN if first is None else f"{1000 * first:.0f} ms"),
        ("requests running", _written(now.running, "{:.0f}")),
        ("requests waiting", _written(now.waiting, "{:.0f}")),
        ("cache in use", _written(now.cache, "{:.0%}")),
    ]


def _row(
    address: EngineAddress,
    answer: EngineReading | str,
    server: WatchedServer,
    interval: CountedInterval | None,
) -> dict[str, Any]:
    """Return the table row of one server.

    It has the cells under `ROW_HEADS`, or a sentence that says what is wrong with the server.
    """
    if isinstance(answer, str):
        return {"address": str(address), "problem": answer, "cells": []}
    metrics = answer.metrics
    undrafted = NOTHING if metrics.has_drafts else UNKNOWN
    cells = [
        metrics.engine,
        *(value for _, value in _of_drafts(server.total, interval, undrafted)),
        _written(None if interval is None else interval.tokens_per_second, "{:.1f}"),
        _written(metrics.running, "{:.0f}"),
        _written(metrics.waiting, "{:.0f}"),
        f"{server.restarts:.0f} times" if server.restarts else "no",
    ]
    return {"address": str(address), "problem": "", "cells": cells}


def _of_drafts(
    total: EngineCounters, now: WatchedPoint | CountedInterval | None, undrafted: str
) -> list[tuple[str, str]]:
    """Return the acceptance rate, the draft utilization and the tokens per forward.

    They are computed from all drafts that the engine counted. If it counted none, the utilization
    and the tokens per forward are the latest values that the engine reports itself. `undrafted` is
    the text that replaces a value that needs drafts.
    """
    used, length = total.draft_utilization, total.block_efficiency
    if not total.drafted and now is not None:
        used, length = now.draft_utilization, now.block_efficiency
    rate = total.acceptance_rate
    return [
        ("acceptance rate", _written(rate, "{:.0%}", UNKNOWN if total.drafted else undrafted)),
        ("draft utilization", _written(used, "{:.0%}", undrafted)),
        ("tokens per forward", _written(length, "{:.2f}", undrafted)),
    ]


def _written(value: float | None, form: str, otherwise: str = UNKNOWN) -> str:
    return otherwise if value is None else form.format(value)
