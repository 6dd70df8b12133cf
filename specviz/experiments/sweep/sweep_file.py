"""A sweep's points on disk, one line each as they are measured, so that a killed sweep can go on.

The first line says what is swept; a last line that was cut off in mid-writing does not count.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from specviz.errors import InputError
from specviz.experiments.sweep.sweep_lines import read_points
from specviz.experiments.sweep.sweeping import Place, SweepPlan
from specviz.models.pair_catalog import pairs

FORMAT = 1


class SweepFile:
    """`known` are the points that the file held already. Use it as a context manager."""

    def __init__(self, path: str, plan: SweepPlan) -> None:
        """InputError where the file holds something else or cannot be written."""
        self._path, self._plan = Path(path), plan
        if self._path.exists() and not self._path.is_file():
            raise InputError(f"output file {path!r} must be a plain file")
        self._header = json.dumps(describe(plan))
        self.known: dict[Place, dict[str, Any]] = {}
        try:
            whole = "".join(f"{line}\n" for line in (self._header, *self._read()))
            place = self._path.resolve()
            beside = place.with_name(f"{place.name}.part")
            beside.write_text(whole, encoding="utf-8")  # what is measured must not be lost halfway
            beside.replace(place)
            self._file: TextIO = self._path.open("a", encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise InputError(f"output file {path!r} cannot be used: {reason}") from None

    def _read(self) -> list[str]:
        """The whole lines of points, checked against the plan."""
        if not self._path.exists() or not self._path.stat().st_size:
            return []
        header, *lines = self._path.read_text(encoding="utf-8").split("\n")
        if header != self._header:
            raise InputError(
                f"output file {self._path.name} must be new or of this very sweep,"
                " got another one: name another file"
            )
        whole = lines[:-1]  # what follows the last line break was cut off
        self.known = read_points(self._plan, whole, f"output file {self._path.name}")
        return whole

    def add(self, point: dict[str, Any]) -> None:
        self._file.write(json.dumps(point) + "\n")
        self._file.flush()

    def __enter__(self) -> SweepFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def describe(plan: SweepPlan) -> dict[str, Any]:
    """What decides the points, as JSON."""
    setting = plan.setting
    pair = setting.pair
    is_named = pair.name in {each.name for each in pairs()}
    config = asdict(setting.config) | {"tree_kind": setting.config.tree_kind.value}
    return {
        "format": FORMAT,
        "axes": [[name, list(values)] for name, values in plan.axes],
        "repeats": plan.repeats,
        "pair": pair.name,
        **({} if is_named else {"target": pair.target, "draft": pair.draft}),
        "task": setting.task,
        **({"texts": list(setting.texts)} if setting.texts else {}),
        "prompts": setting.prompts,
        "prompt_tokens": setting.prompt_tokens,
        "device": setting.device,
        "dtype": setting.dtype,
        "config": config,
    }


def write_csv(points: Sequence[dict[str, Any]], path: str) -> None:
    """A row per point: its setting, then every single number. InputError for a bad path."""
    rows = [each["setting"] | _numbers(each) for each in points]
    try:
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(rows[0]) if rows else [])
            table.writeheader()
            table.writerows(rows)
    except OSError as error:
        raise InputError(f"csv file {path!r} cannot be written: {error.strerror}") from None


def _numbers(point: dict[str, Any]) -> dict[str, Any]:
    low, high = point["speedup_spread"]
    single = {key: value for key, value in point.items() if not isinstance(value, (list, dict))}
    return single | {"speedup_low": low, "speedup_high": high}
