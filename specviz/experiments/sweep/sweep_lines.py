"""The lines of a sweep's file behind its first: each checked to be a whole point of the plan.

Trusts nothing of a file: it may have been cut, edited or written by something else.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from specviz.errors import InputError
from specviz.experiments.sweep.sweeping import Place, SweepPlan

Point = dict[str, Any]
MAX_DEPTHS = 64
LARGEST = 1e15  # of any number of a point
NUMBERS = (
    *("speedup", "baseline_tokens_per_second", "tokens_per_second", "rounds"),
    *("baseline_ttft_seconds", "ttft_seconds", "prompt_tokens", "prefill_seconds"),
    *("draft_seconds", "verify_seconds", "host_seconds"),
)
PERHAPS_NUMBERS = (  # None where nothing was drafted
    *("acceptance_rate", "draft_utilization", "block_efficiency", "cost_ratio"),
    *("verify_overhead", "theory_speedup", "drafter_bytes"),
)
LISTS = ("speedup_spread", "speedups", "theory_band", "acceptance_by_depth")
KEYS = {"setting", *NUMBERS, *PERHAPS_NUMBERS, *LISTS}


def read_points(plan: SweepPlan, lines: Sequence[str], file: str) -> dict[Place, Point]:
    """The points of the lines, each once; InputError begins with `file`, the file's name."""
    places = {json.dumps(dict(place)): place for place in plan.places}
    known: dict[Place, Point] = {}
    for number, line in enumerate(lines, start=2):
        point = json_object(line) or {}
        place = places.get(json.dumps(point.get("setting")))  # as text: 1, 1.0 and true differ
        if place is None or place in known or not _is_whole(point):
            raise InputError(
                f"{file} must hold whole points of its sweep, each once, but line {number} is none"
            )
        known[place] = point
    return known


def json_object(line: str) -> dict[str, Any] | None:
    """None where the line is none, or holds what no text file can."""
    try:
        found = json.loads(line, parse_constant=_refuse)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _is_whole(point: Point) -> bool:
    return (
        set(point) == KEYS
        and all(_is_number(point[name]) for name in NUMBERS)
        and all(point[name] is None or _is_number(point[name]) for name in PERHAPS_NUMBERS)
        and all(point[name] > 0 for name in ("tokens_per_second", "baseline_tokens_per_second"))
        and _are_numbers(point["speedup_spread"], 2)
        and _are_numbers(point["speedups"])
        and _is_theory(point["theory_speedup"], point["theory_band"])
        and _are_depths(point["acceptance_by_depth"])
    )


def _is_number(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return 0 <= value < LARGEST


def _are_numbers(values: object, count: int | None = None) -> bool:
    if not isinstance(values, list) or count not in (None, len(values)):
        return False
    return all(map(_is_number, values))


def _is_theory(speedup: object, band: object) -> bool:
    """Both, or neither."""
    return band is None if speedup is None else _are_numbers(band, 2)


def _are_depths(depths: object) -> bool:
    names = {"depth", "reached", "passed", "rate"}
    return (
        isinstance(depths, list)
        and len(depths) <= MAX_DEPTHS
        and all(isinstance(each, dict) and set(each) == names for each in depths)
        and all(_are_numbers(list(each.values())) for each in depths)
        and all(each["reached"] >= max(1, each["passed"]) for each in depths)
    )
