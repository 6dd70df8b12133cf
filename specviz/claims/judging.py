"""How measured results become figures and verdicts.

Takes the JSON-able results of the experiments; measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from specviz.claims.claim import Figure, Result, Verdict
from specviz.claims.implied import TOLERANCE
from specviz.metrics.measured_costs import wilson_interval

Point = dict[str, Any]
Part = bool | None  # a part of a claim: right, refuted, or between the two


def combined(parts: Sequence[Part]) -> Verdict:
    """Right in all parts, in some, in none; undecided while the open ones could change that.

    >>> combined([True, False, None]).value, combined([True, None]).value
    ('holds under conditions', 'undecided')
    """
    if True in parts and False in parts:
        return Verdict.CONDITIONAL
    if None in parts or not parts:
        return Verdict.UNDECIDED
    return Verdict.HOLDS if True in parts else Verdict.WRONG


def combined_sizes(parts: Sequence[Part]) -> Verdict:
    """As `combined`, for how much is gained: another machine's number is not refuted by ours."""
    verdict = combined(parts)
    return Verdict.CONDITIONAL if verdict is Verdict.WRONG else verdict


def point(grid: Result, axis: str, value: Any) -> Point:
    """The point of a sweep at this value of its axis."""
    (found,) = (each for each in grid["points"] if each["setting"][axis] == value)
    return dict(found)


def row(batches: Result, size: int) -> Point:
    """The row of a batch size."""
    (found,) = (each for each in batches["rows"] if each["batch_size"] == size)
    return dict(found)


def pays(measured: Point) -> Part:
    """All repeats above 1, all below, or between."""
    low, high = measured["speedup_spread"]
    return True if low > 1 else False if high < 1 else None


def faster(one: Point, other: Point) -> Part:
    """Whether `one` gains more in all its repeats than `other` in any."""
    if one["speedup_spread"][0] > other["speedup_spread"][1]:
        return True
    return False if one["speedup_spread"][1] < other["speedup_spread"][0] else None


def inside(low: float, high: float, measured: Point) -> Part:
    """Whether the speedup's spread lies within a range, give or take a tenth, or outside it."""
    low, high = (1 - TOLERANCE) * low, (1 + TOLERANCE) * high
    least, most = measured["speedup_spread"]
    if low <= least and most <= high:
        return True
    return False if most < low or least > high else None


def near(value: float, low: float, high: float) -> Part:
    """Whether all of a spread lies within a tenth of the value, or none of it."""
    least, most = (1 - TOLERANCE) * value, (1 + TOLERANCE) * value
    if least <= low and high <= most:
        return True
    return False if high < least or low > most else None


def speedup(name: str, measured: Point) -> Figure:
    low, high = measured["speedup_spread"]
    return Figure(f"speedup, {name}", measured["speedup"], "x", (low, high))


def acceptance(name: str, measured: Point) -> Figure:
    """With the 95 % interval of a rate (Wilson) as its spread."""
    rate = measured["acceptance_rate"] or 0.0
    spread = wilson_interval(rate, examined(measured))
    return Figure(f"acceptance rate, {name}", rate, "", spread)


def examined(measured: Point) -> int:
    """Levels reached, over all depths."""
    return int(sum(depth["reached"] for depth in measured["acceptance_by_depth"]))


def accepted_a_round(measured: Point) -> float:
    passed = sum(depth["passed"] for depth in measured["acceptance_by_depth"])
    return float(passed / measured["rounds"])


def over(name: str, values: Sequence[float], unit: str = "") -> Figure:
    """The median of several, with their spread."""
    return Figure(name, median(values), unit, (min(values), max(values)))
