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
from specviz.experiments.sweep.sweep_axis import axis_named
from specviz.experiments.sweep.sweep_file import Point as Point
from specviz.experiments.sweep.sweep_file import describe, json_object, read_points, write_csv
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.experiments.sweep.sweeping import Place, SweepPlan
from specviz.models.files.loading import DEVICES, DTYPES
from specviz.models.pair_catalog import Pair, custom_pair, pair_named
from specviz.trace_file.config_fields import decode_settings, with_newer

MAX_CHARACTERS = 4_000_000
MAX_WRITTEN = 800  # characters of a field as JSON; an axis of the form comes to some 700
TYPES = {  # of what no rule of a setting checks
    **dict.fromkeys(("prompts", "repeats"), (int,)),
    "prompt_tokens": (int, type(None)),
}
CHOICES = {"device": DEVICES, "dtype": tuple(DTYPES)}


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
    plan = _plan(json_object(header))
    return SweepSoFar(plan, read_points(plan, lines[:-1], "file"))


def header_line(plan: SweepPlan) -> str:
    return json.dumps(describe(plan))


def csv_text(sweep: SweepSoFar) -> str:
    """The table that `sweep --csv` writes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sweep.csv"
        write_csv(sweep.points, str(path))
        return path.read_text(encoding="utf-8")


def _plan(header: dict[str, Any] | None) -> SweepPlan:
    """Built anew from the header and compared with it, so that nothing unknown slips through."""
    if header is None:
        raise InputError("file must be that of a sweep (sweep --output), but line 1 is not")
    try:
        plan = _built(header)
    except InputError as error:
        raise InputError(f"file cannot be used: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InputError("file must be that of a sweep, but its first line is not") from None
    if json.loads(header_line(plan)) != header | {"config": with_newer(header["config"])}:
        raise InputError("file must be that of a sweep of this version, but its first line is not")
    return plan


def _built(header: dict[str, Any]) -> SweepPlan:
    _check_fields(header)
    texts = header.get("texts", [])
    if not all(isinstance(each, str) for each in texts):
        raise TypeError("texts")
    setting = SweepSetting(
        _pair(header),
        decode_settings(header["config"], "config"),
        header["task"],
        header["prompts"],
        header["prompt_tokens"],
        header["device"],
        header["dtype"],
        texts=tuple(texts),
    )
    axes = tuple(
        (name, axis_named(name).values(",".join(map(str, values))))
        for name, values in header["axes"]
    )
    return SweepPlan(setting, axes, header["repeats"])


def _check_fields(header: dict[str, Any]) -> None:
    """ValueError, TypeError or KeyError for what no setting refuses, or would quote without end."""
    for name, types in TYPES.items():
        if type(header[name]) not in types:
            raise TypeError(name)
    for name, known in CHOICES.items():
        if header[name] not in known:
            raise ValueError(name)
    if any(len(json.dumps(field, ensure_ascii=False)) > MAX_WRITTEN for field in _quoted(header)):
        raise ValueError("header")


def _quoted(header: dict[str, Any]) -> list[Any]:
    """What an error may quote as a whole."""
    fields = [header[name] for name in header.keys() - {"axes", "texts", "config"}]
    names = [name for name, _ in header["axes"]]
    return [*fields, *header["config"].values(), *header["axes"], names]


def _pair(header: dict[str, Any]) -> Pair:
    """One of the list, or two models by their sources."""
    if "target" in header:
        return custom_pair(header["target"], header["draft"])
    return pair_named(header["pair"])
