"""What the page shows of serving engines that it watches: from what it keeps and a new reading,
charts, facts, and a row for each server.
"""

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

MOST_READINGS = 300  # that are drawn: ten minutes
UNKNOWN = "not told"
NOTHING = "nothing drafted"
ROW_HEADS = (
    *("engine", "accepted of drafted", "tokens a forward", "tokens a second"),
    *("running", "waiting", "started again"),
)
_LARGEST = 1e15  # of a count that can be
_COUNTS = tuple(each.name for each in fields(EngineCounters) if each.name != "per_position")
# chart -> its title, and what an engine must tell for it, any of them
_CHARTS = {
    "acceptance": ("accepted of drafted", {"drafted", "latest_acceptance"}),
    "positions": ("accepted by guess", {"drafted", "per_position"}),
    "length": ("tokens a forward", {"drafted", "latest_length"}),
    "rate": ("tokens a second", {"tokens"}),
    "first": ("first token", {"first_tokens"}),
    "requests": ("requests running and waiting", {"running", "waiting"}),
    "cache": ("cache in use", {"cache"}),
}
_OF_DRAFTS = ("acceptance", "positions", "length")
_UNDRAFTED = "nothing was drafted since you attached"


@dataclass(frozen=True, slots=True)
class WatchedServer:
    """One server: what it had counted when it was last read, `at` (None: it never was), and what it
    has counted since the page attached.
    """

    at: float | None = None
    last: EngineCounters = EngineCounters()
    total: EngineCounters = EngineCounters()
    restarts: float = 0

    @classmethod
    def read(cls, value: Any) -> WatchedServer:
        """Of what `asdict` gave; InputError for anything else."""
        _check_names(value, cls)
        _check_numbers([value["at"]], may_lack=True)
        _check_numbers([value["restarts"]])
        last, total = (_counters(value[name]) for name in ("last", "total"))
        return cls(value["at"], last, total, value["restarts"])

    def then(self, now: EngineReading) -> tuple[WatchedServer, CountedInterval | None]:
        """As it is after a reading, and what was counted until then, if there is one to compare."""
        if self.at is None:
            return replace(self, at=now.at, last=now.metrics.counters), None
        if now.at <= self.at:  # the same as before
            return self, None
        interval = CountedInterval.between(self.last, self.at, now)
        total = EngineCounters.total([self.total, interval.counted])
        restarts = self.restarts + interval.restarts
        return WatchedServer(now.at, now.metrics.counters, total, restarts), interval


@dataclass(frozen=True, slots=True)
class WatchedPoint:
    """Of all servers together, `at` so many seconds since 1970; see `CountedInterval`."""

    at: float
    tokens_per_second: float
    acceptance: float | None
    accepted_length: float | None
    first_token: float | None
    running: float | None
    waiting: float | None
    cache: float | None

    @classmethod
    def read(cls, value: Any) -> WatchedPoint:
        """Of what `asdict` gave; InputError for anything else."""
        _check_names(value, cls)
        _check_numbers([value["at"], value["tokens_per_second"]])
        _check_numbers(value.values(), may_lack=True)
        return cls(**value)

    @classmethod
    def of(cls, at: float, parts: Sequence[CountedInterval]) -> WatchedPoint:
        """What was counted until then."""
        together = asdict(CountedInterval.together(parts))
        return cls(at, **{each.name: together[each.name] for each in fields(cls)[1:]})


@dataclass(frozen=True, slots=True)
class Watched:
    """What the page holds between two questions: each of its servers, and points of the charts."""

    servers: tuple[WatchedServer, ...]
    points: tuple[WatchedPoint, ...] = ()

    @classmethod
    def read(cls, value: Any) -> Watched:
        """Of what `asdict` gave; InputError for anything else."""
        _check_names(value, cls)
        servers = _list(value, "servers", MOST_REPLICAS)
        points = _list(value, "points", MOST_READINGS)
        return cls(tuple(map(WatchedServer.read, servers)), tuple(map(WatchedPoint.read, points)))


def shown(
    addresses: Sequence[EngineAddress], answers: Sequence[EngineReading | str], kept: Watched
) -> dict[str, Any]:
    """After a reading of each server, or the sentence of what is wrong with it."""
    if len(kept.servers) != len(addresses):
        raise InputError(f"kept must be of {len(addresses)} servers, got {len(kept.servers)}")
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
    told = frozenset[str]().union(*(each.metrics.told for each in readings))
    uncounted = [name for name, (_, needs) in _CHARTS.items() if not needs & told]
    undrafted = [] if _has_drafts(kept, total) else [n for n in _OF_DRAFTS if n not in uncounted]
    engines = " and ".join(sorted({each.metrics.engine for each in readings}))
    return {
        "kept": asdict(kept),
        "restarts": sum(each.restarts for each in kept.servers),
        "facts": _facts(kept.points, total, told),
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


# ---- what the page keeps


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
        raise InputError(f"kept must be that of the answer before, got {short(value)}")


def _check_numbers(values: Iterable[Any], *, may_lack: bool = False) -> None:
    for each in values:
        if each is None and may_lack:
            continue
        if not is_number(each) or not 0 <= each <= _LARGEST:
            raise InputError(f"kept must hold counts, got {short(each)}")


# ---- charts and facts


def _has_drafts(kept: Watched, total: EngineCounters) -> bool:
    return total.drafted > 0 or any(each.acceptance is not None for each in kept.points)


def _absent(charts: Sequence[str], why: str) -> list[str]:
    """A sentence of the charts that would show nothing."""
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
        "acceptance": over_time("accepted", "acceptance", is_share=True),
        "positions": positions_figure(total.acceptance_per_position),
        "length": over_time("expected", "accepted_length"),
        "rate": over_time("verify_time", "tokens_per_second"),
        "first": over_time("verify_time", "first_token", scale=1000),
        "requests": over_time_figure(times, requests),
        "cache": over_time("accepted", "cache", is_share=True),
    }


def _facts(
    points: Sequence[WatchedPoint], total: EngineCounters, told: frozenset[str]
) -> list[tuple[str, str]]:
    """Since the page attached, and now; what the engines do not say is said to be unknown."""
    now = points[-1] if points else WatchedPoint(0, 0, *[None] * 6)
    undrafted = NOTHING if "drafted" in told else UNKNOWN
    first = total.first_token
    return [
        *_of_drafts(total, now, undrafted),
        ("drafted tokens", f"{total.drafted:,.0f}" if total.drafted else undrafted),
        ("tokens written", f"{total.tokens:,.0f}"),
        ("prompt tokens read", f"{total.prompt_tokens:,.0f}"),
        ("tokens a second now", _told(now.tokens_per_second, "{:.1f}")),
        ("first token", UNKNOWN if first is None else f"{1000 * first:.0f} ms"),
        ("requests running", _told(now.running, "{:.0f}")),
        ("requests waiting", _told(now.waiting, "{:.0f}")),
        ("cache in use", _told(now.cache, "{:.0%}")),
    ]


def _row(
    address: EngineAddress,
    answer: EngineReading | str,
    server: WatchedServer,
    interval: CountedInterval | None,
) -> dict[str, Any]:
    """One server apart: its cells under `ROW_HEADS`, or what is wrong with it."""
    if isinstance(answer, str):
        return {"address": str(address), "problem": answer, "cells": []}
    metrics = answer.metrics
    undrafted = NOTHING if metrics.has_drafts else UNKNOWN
    cells = [
        metrics.engine,
        *(value for _, value in _of_drafts(server.total, interval, undrafted)),
        _told(None if interval is None else interval.tokens_per_second, "{:.1f}"),
        _told(metrics.running, "{:.0f}"),
        _told(metrics.waiting, "{:.0f}"),
        f"{server.restarts:.0f} times" if server.restarts else "no",
    ]
    return {"address": str(address), "problem": "", "cells": cells}


def _of_drafts(
    total: EngineCounters, now: WatchedPoint | CountedInterval | None, undrafted: str
) -> list[tuple[str, str]]:
    """Of all that was counted; of an engine that does not count it, what it says of the latest."""
    acceptance, length = total.acceptance, total.accepted_length
    if not total.drafted and now is not None:
        acceptance, length = now.acceptance, now.accepted_length
    return [
        ("accepted of drafted", _told(acceptance, "{:.0%}", undrafted)),
        ("tokens a forward", _told(length, "{:.2f}", undrafted)),
    ]


def _told(value: float | None, form: str, otherwise: str = UNKNOWN) -> str:
    return otherwise if value is None else form.format(value)
