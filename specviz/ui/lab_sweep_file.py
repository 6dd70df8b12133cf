"""A sweep as the lines of the command line's file: read back, checked, and as a table.

Trusts nothing of a file. The format is that of `experiments.sweep_file`: a first line that says
what is swept, then a line per point.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specviz.errors import InputError
from specviz.experiments.sweep import Place, SweepPlan
from specviz.experiments.sweep_axis import axis_named
from specviz.experiments.sweep_file import describe, write_csv
from specviz.experiments.sweep_setting import SweepSetting
from specviz.models.catalog import pair_named
from specviz.records import DecodingConfig, ProposalKind

Point = dict[str, Any]
MAX_CHARACTERS = 4_000_000
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


@dataclass(frozen=True, slots=True)
class SweepSoFar:
    """What is swept, and the points that there are, in the plan's order."""

    plan: SweepPlan
    known: Mapping[Place, Point]

    @property
    def points(self) -> list[Point]:
        return [self.known[place] for place in self.plan.places if place in self.known]

    @property
    def is_complete(self) -> bool:
        return len(self.known) == len(self.plan.places)


def read_sweep(text: object) -> SweepSoFar:
    """The sweep of a file's text; InputError where it is none. A cut-off last line is left out."""
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        raise InputError(f"file must be a text of at most {MAX_CHARACTERS} characters")
    header, *lines = text.split("\n")
    plan = _plan(_object(header, 1))
    known: dict[Place, Point] = {}
    for number, line in enumerate(lines[:-1], start=2):
        point = _object(line, number)
        known[_place(plan, point, number)] = point
    return SweepSoFar(plan, known)


def header_line(plan: SweepPlan) -> str:
    return json.dumps(describe(plan))


def csv_text(sweep: SweepSoFar) -> str:
    """The table that `sweep --csv` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep.csv"
        write_csv(sweep.points, str(path))
        return path.read_text(encoding="utf-8")


def _object(line: str, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"file must be that of a sweep (sweep --output), but line {number} is not")
    return found


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _plan(header: dict[str, Any]) -> SweepPlan:
    """Built anew from the header and compared with it, so that nothing unknown slips through."""
    try:
        plan = _built(header)
    except InputError as error:
        raise InputError(f"file cannot be used: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError("file must be that of a sweep, but its first line is not") from None
    if json.loads(header_line(plan)) != header:
        raise InputError("file must be that of a sweep of this version, but its first line is not")
    return plan


def _built(header: dict[str, Any]) -> SweepPlan:
    given = dict(header["config"])
    given["tree_kind"] = ProposalKind(given["tree_kind"])
    given["branching"] = tuple(given["branching"])
    given["options"] = tuple((name, value) for name, value in given["options"])
    setting = SweepSetting(
        pair_named(header["pair"]),
        DecodingConfig(**given),
        header["task"],
        header["prompts"],
        header["prompt_tokens"],
        header["device"],
        header["dtype"],
    )
    axes = tuple(
        (name, axis_named(name).values(",".join(map(str, values))))
        for name, values in header["axes"]
    )
    return SweepPlan(setting, axes, header["repeats"])


def _place(plan: SweepPlan, point: Point, number: int) -> Place:
    """Of a point with all its numbers."""
    setting = point.get("setting")
    place = tuple(setting.items()) if isinstance(setting, dict) else ()
    if place not in plan.places or not _is_whole(point):
        raise InputError(f"file must hold whole points of its sweep, but line {number} is none")
    return place


def _is_whole(point: Point) -> bool:
    return (
        all(_is_number(point.get(name)) for name in NUMBERS)
        and all(point.get(name) is None or _is_number(point[name]) for name in PERHAPS_NUMBERS)
        and all(point[name] > 0 for name in ("tokens_per_second", "baseline_tokens_per_second"))
        and _are_numbers(point.get("speedup_spread"), 2)
        and _are_numbers(point.get("speedups"))
        and (point.get("theory_band") is None or _are_numbers(point["theory_band"], 2))
        and _are_depths(point.get("acceptance_by_depth"))
    )


def _is_number(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    return 0 <= value < LARGEST


def _are_numbers(values: object, count: int | None = None) -> bool:
    if not isinstance(values, list) or count not in (None, len(values)):
        return False
    return all(map(_is_number, values))


def _are_depths(depths: object) -> bool:
    names = {"depth", "reached", "passed", "rate"}
    return (
        isinstance(depths, list)
        and len(depths) <= MAX_DEPTHS
        and all(isinstance(each, dict) and set(each) == names for each in depths)
        and all(_are_numbers(list(each.values())) for each in depths)
    )
