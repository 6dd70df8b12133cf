"""Which K for which batch size: from measured or calculated speedups, or from a sweep's file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from specviz.engines.model_deployment import BatchRange, check_schedule
from specviz.errors import InputError, short

PAYS = 1.0  # speedup above which speculation is kept
_BATCH, _LENGTH = "batch-size", "draft-length"


def schedule_of(speedups: Mapping[int, Mapping[int, float]]) -> tuple[BatchRange, ...]:
    """The best K of each batch size up to the next one that is known; 0 where none pays.

    `speedups` is batch size -> K -> speedup. Below the smallest batch its K is taken; above the
    largest, engines keep the last one.

    >>> schedule_of({1: {4: 2.0, 8: 2.2}, 8: {4: 1.3, 8: 1.1}, 32: {4: 0.9, 8: 0.7}})
    (BatchRange(first=1, last=7, draft_tokens=8), BatchRange(first=8, last=31, draft_tokens=4), \
BatchRange(first=32, last=32, draft_tokens=0))
    """
    sizes = sorted(speedups)
    if not sizes:
        raise InputError("speedups must be of one batch size at least, got none")
    found: list[BatchRange] = []
    for place, size in enumerate(sizes):
        last = sizes[place + 1] - 1 if place + 1 < len(sizes) else size
        best = max(speedups[size], key=lambda depth: (speedups[size][depth], -depth))
        depth = best if speedups[size][best] > PAYS else 0
        if found and found[-1].draft_tokens == depth:
            found[-1] = BatchRange(found[-1].first, last, depth)
        else:
            found.append(BatchRange(found[-1].last + 1 if found else 1, last, depth))
    check_schedule(found)
    return tuple(found)


def schedule_of_sweep(text: str) -> tuple[BatchRange, ...]:
    """The schedule that a file of `sweep --axis batch-size=… --axis draft-length=…` gives.

    With batch sizes alone K is the one that was set. InputError for another file.
    """
    lines = text.split("\n")
    header = _object(lines[0])
    axes = [axis[0] for axis in header.get("axes", ()) if isinstance(axis, list) and axis]
    if _BATCH not in axes or not set(axes) <= {_BATCH, _LENGTH}:
        raise InputError(
            f"sweep file must have the axis {_BATCH}, and perhaps {_LENGTH}, "
            f"got {short(', '.join(map(str, axes)))}"
        )
    speedups: dict[int, dict[int, float]] = defaultdict(dict)
    for line in lines[1:-1]:  # what follows the last line break was cut off
        point = _object(line)
        setting = point.get("setting")
        if not isinstance(setting, dict):
            raise InputError(f"sweep file must hold points with a setting, got {short(line)}")
        length = setting.get(_LENGTH, header.get("config", {}).get("draft_length"))
        size, speedup = setting.get(_BATCH), point.get("speedup")
        if not (isinstance(size, int) and isinstance(length, int)) or not isinstance(
            speedup, int | float
        ):
            raise InputError(f"sweep file must hold points with a speedup, got {short(line)}")
        speedups[size][length] = float(speedup)
    return schedule_of(speedups)


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"sweep file must hold a JSON object a line, got {short(line)}")
    return found
