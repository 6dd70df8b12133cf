"""Choose the draft length K for each batch size, from speedups or from a sweep file."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from specviz.engines.model_deployment import BatchRange, check_schedule
from specviz.errors import InputError, short

PAYS = 1.0  # the speedup above which speculation is used
_BATCH, _LENGTH = "batch-size", "draft-length"


def schedule_of(speedups: Mapping[int, Mapping[int, float]]) -> tuple[BatchRange, ...]:
    """Return ranges of batch sizes with the fastest K for each. K is 0 if speculation is slower.

    `speedups` maps batch size -> K -> speedup. Each K is used up to the next measured batch size.
    The K of the smallest batch is also used for smaller batches. Above the largest batch, engines
    continue with the last K.

    >>> schedule_of({1: {4: 2.0, 8: 2.2}, 8: {4: 1.3, 8: 1.1}, 32: {4: 0.9, 8: 0.7}})
    (BatchRange(first=1, last=7, draft_tokens=8), BatchRange(first=8, last=31, draft_tokens=4), \
BatchRange(first=32, last=32, draft_tokens=0))
    """
    sizes = sorted(speedups)
    if not sizes:
        raise InputError("speedups must have at least one batch size, got none")
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
    """Return the schedule for a file from `sweep --axis batch-size=… --axis draft-length=…`.

    If only the batch size varies, K is the draft length of the sweep. Raises InputError for another
    kind of file.
    """
    lines = text.split("\n")
    header = _object(lines[0])
    axes = [axis[0] for axis in header.get("axes", ()) if isinstance(axis, list) and axis]
    if _BATCH not in axes or not set(axes) <= {_BATCH, _LENGTH}:
        raise InputError(
            f"sweep file must vary {_BATCH}, and perhaps {_LENGTH} as well, got a sweep over "
            f"{short(', '.join(map(str, axes)))}"
        )
    speedups: dict[int, dict[int, float]] = defaultdict(dict)
    # Text after the last line break is skipped, because it was cut off while the file was written.
    for line in lines[1:-1]:
        point = _object(line)
        setting = point.get("setting")
        if not isinstance(setting, dict):
            raise InputError(
                f"sweep file must have a setting in each line after the first, got {short(line)}"
            )
        length = setting.get(_LENGTH, header.get("config", {}).get("draft_length"))
        size, speedup = setting.get(_BATCH), point.get("speedup")
        if not (isinstance(size, int) and isinstance(length, int)) or not isinstance(
            speedup, int | float
        ):
            raise InputError(
                f"sweep file must have a batch size, a draft length and a speedup in each line "
                f"after the first, got {short(line)}"
            )
        speedups[size][length] = float(speedup)
    return schedule_of(speedups)


def _object(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"sweep file must have one JSON object per line, got {short(line)}")
    return found
