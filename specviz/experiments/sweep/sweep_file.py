"""A sweep's points in a file, one line per point, so that an interrupted sweep can continue.

The first line describes the sweep. An incomplete last line is ignored. Every other line is checked,
because a file may have been cut, edited or written by another program.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from specviz.decoding.batch_options import BatchOptions
from specviz.errors import InputError, is_number, short
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.experiments.sweep.sweeping import Place, SweepPlan
from specviz.models.pair_catalog import Pair, pairs
from specviz.prompts import prompt_json
from specviz.records import BATCH
from specviz.trace_file.config_fields import encode_settings
from specviz.whole_file import write_whole

FORMAT = 1
Point = dict[str, Any]
MAX_DEPTHS = 64
LARGEST = 1e15  # the largest number that a point in a file may contain
NUMBERS = (
    *("speedup", "baseline_tokens_per_second", "tokens_per_second", "rounds"),
    *("baseline_ttft_seconds", "ttft_seconds", "prompt_tokens", "prefill_seconds"),
    *("draft_prefill_seconds", "draft_seconds", "verify_seconds", "host_seconds", "texts"),
)
PERHAPS_NUMBERS = (  # the numbers that are None in a point in which nothing was drafted
    *("acceptance_rate", "rejection_rate", "draft_utilization", "block_efficiency", "cost_ratio"),
    *("verify_overhead", "theory_speedup", "drafter_bytes"),
    "drafter_cache_bytes",
)
# Points in older files lack these fields, and get these values when a file is read. Their
# `draft_seconds` includes the drafter's prefill. For `texts`, see `_of_one_block`.
OLDER = {
    **{"draft_prefill_seconds": 0.0, "rejection_rate": None, "drafter_cache_bytes": None},
    "texts": 0,
}
LISTS = ("speedup_spread", "speedups", "theory_band", "acceptance_by_depth")
KEYS = {"setting", *NUMBERS, *PERHAPS_NUMBERS, *LISTS}


class SweepFile:
    """A sweep's file, as a context manager.

    `known` holds the points that were already in the file.
    """

    def __init__(self, path: str, plan: SweepPlan) -> None:
        """Open or create the file. Raises InputError if the file belongs to another sweep."""
        self._path, self._plan = Path(path), plan
        if self._path.exists() and not self._path.is_file():
            raise InputError(
                f"output file {path!r} must be a regular file, not a folder or a device"
            )
        self._header = json.dumps(describe(plan))
        self.known: dict[Place, dict[str, Any]] = {}
        try:
            whole = "".join(f"{line}\n" for line in (self._header, *self._read()))
            # `write_whole` replaces the file in one step, so that no measured point is lost.
            write_whole(self._path, whole.encode())
            self._file: TextIO = self._path.open("a", encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise InputError(f"output file {path!r} cannot be used: {reason}") from None

    def _read(self) -> list[str]:
        """Return the complete lines with points, after checking them against the plan."""
        if not self._path.exists() or not self._path.stat().st_size:
            return []
        header, *lines = self._path.read_text(encoding="utf-8").split("\n")
        if header != self._header:
            raise InputError(
                f"output file {self._path.name} must be new or from this sweep,"
                " but it is from another one: choose another file"
            )
        whole = lines[:-1]  # a line without a line break at its end is incomplete
        self.known = read_points(self._plan, whole, f"output file {self._path.name}")
        return whole

    def add(self, point: dict[str, Any]) -> None:
        """Append a point. Raises InputError if the disk is full; earlier points stay."""
        try:
            self._file.write(json.dumps(point) + "\n")
            self._file.flush()
        except OSError as error:
            name = self._path.name
            raise InputError(f"output file {name!r} cannot be written: {error.strerror}") from None

    def __enter__(self) -> SweepFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def describe(plan: SweepPlan) -> dict[str, Any]:
    """Return all facts that decide the results of a sweep's points, as JSON-ready values."""
    setting = plan.setting
    pair = setting.pair
    is_named = pair.name in {each.name for each in pairs()}
    return {
        "format": FORMAT,
        "axes": [[name, list(values)] for name, values in plan.axes],
        "repeats": plan.repeats,
        "pair": pair.name,
        **({} if is_named else _sources(pair)),
        "task": setting.task,
        **({"texts": list(map(prompt_json, setting.texts))} if setting.texts else {}),
        "prompts": setting.prompts,
        "prompt_tokens": setting.prompt_tokens,
        "device": setting.device,
        "dtype": setting.dtype,
        "config": encode_settings(setting.config),
        **batch_json(setting),
    }


def batch_json(setting: SweepSetting) -> dict[str, dict[str, int]]:
    """Return {"batch": the batch settings that differ from their defaults}, or {} if none differs.

    Older files have no "batch" either.
    """
    given = {"batch_size": setting.batch_size, **asdict(setting.batch)}
    unusual = {name: given[name] for name in BATCH if given[name] != BATCH[name].default}
    return {"batch": unusual} if unusual else {}


def batch_of(given: Mapping[str, int]) -> dict[str, Any]:
    """Return the fields of a SweepSetting for these batch settings.

    Raises InputError for a name outside BATCH, or a value that breaks a rule.
    """
    for name, value in given.items():
        if name not in BATCH:
            raise InputError(f"batch settings must be among {', '.join(BATCH)}, got {short(name)}")
        BATCH[name].check(value)
    size = given.get("batch_size", BATCH["batch_size"].default)
    shared = {name: value for name, value in given.items() if name != "batch_size"}
    return {"batch_size": size, "batch": BatchOptions(**shared)}


def _sources(pair: Pair) -> dict[str, str]:
    """Return the sources of a pair that has no name: its models, and its heads if it has any."""
    heads = {"eagle": pair.eagle, "medusa": pair.medusa}
    given = {role: source for role, source in heads.items() if source}
    return {"target": pair.target, "draft": pair.draft, **given}


def read_points(plan: SweepPlan, lines: Sequence[str], file: str) -> dict[Place, Point]:
    """Return the points in these lines of a file.

    Raises InputError, which begins with `file`, for a line that is no complete point, or that
    repeats one.
    """
    places = {json.dumps(dict(place)): place for place in plan.places}
    known: dict[Place, Point] = {}
    for number, line in enumerate(lines, start=2):
        point = json_object(line) or {}
        point |= {key: value for key, value in OLDER.items() if key not in point}
        # Settings are compared as JSON text, because 1, 1.0 and true are equal in Python but differ
        # as text.
        place = places.get(json.dumps(point.get("setting")))
        if place is None or place in known or not _is_whole(point):
            raise InputError(
                f"{file} must contain only complete points of its sweep, each point once, but line "
                f"{number} is incomplete, repeated or from another sweep"
            )
        setting = plan.setting_at(place)
        known[place] = point if point["texts"] else _of_one_block(point, setting)
    return known


def _of_one_block(point: Point, setting: SweepSetting) -> Point:
    """Convert a point of an older file to the current format.

    The sums in an older file cover all repeats; the current ones cover one repeat.
    """
    blocks = max(1, len(point["speedups"]))
    seconds = [name for name in NUMBERS if name.endswith("_seconds") and "ttft" not in name]
    depths = [
        each | {name: each[name] / blocks for name in ("reached", "passed")}
        for each in point["acceptance_by_depth"]
    ]
    return point | {
        **{name: point[name] / blocks for name in ("rounds", *seconds)},
        "acceptance_by_depth": depths,
        "texts": setting.batches * setting.batch_size,
    }


def json_object(line: str) -> dict[str, Any] | None:
    """Parse a line as a JSON object.

    The result is None if the line is no JSON object, or if it holds text that is not valid Unicode.
    """
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
    return is_number(value) and 0 <= value < LARGEST


def _are_numbers(values: object, count: int | None = None) -> bool:
    if not isinstance(values, list) or count not in (None, len(values)):
        return False
    return all(map(_is_number, values))


def _is_theory(speedup: object, band: object) -> bool:
    """Return whether a point has both the speedup and the band of theory, or neither of them."""
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


def csv_text(points: Sequence[dict[str, Any]], line_end: str = "\r\n") -> str:
    """Return one CSV row per point, with its setting and its numbers, but without its lists."""
    rows = [each["setting"] | _numbers(each) for each in points]
    text = io.StringIO()
    table = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator=line_end)
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def write_csv(points: Sequence[dict[str, Any]], path: str) -> None:
    """Write the points to a CSV file. Raises InputError if it cannot be written."""
    try:
        write_whole(path, csv_text(points).encode())
    except OSError as error:
        raise InputError(f"csv file {path!r} cannot be written: {error.strerror}") from None


def _numbers(point: dict[str, Any]) -> dict[str, Any]:
    low, high = point["speedup_spread"]
    single = {key: value for key, value in point.items() if not isinstance(value, (list, dict))}
    return single | {"speedup_low": low, "speedup_high": high}
