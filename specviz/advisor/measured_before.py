"""The fastest setting of an earlier sweep; the advice reports if it contradicts that sweep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specviz.errors import is_number
from specviz.records import MAX_DRAFT_LENGTH


@dataclass(frozen=True, slots=True)
class MeasuredBefore:
    """The fastest setting of a sweep, and its speedup."""

    method: str
    draft_length: int
    speedup: float


def fastest_of_sweep(found: Mapping[str, Any], pair: str) -> MeasuredBefore | None:
    """Return the fastest setting of a sweep.

    The result is None if the sweep has no usable point or measured another pair. A speedup above
    the tokens per forward is impossible: other work disturbed that point, so it does not count.
    """
    if found.get("pair") != pair:
        return None
    try:
        points = [_measured(each, found["config"]) for each in found["points"]]
    except (LookupError, TypeError, ValueError, AttributeError):
        return None
    calm = [each for each in points if each is not None]
    return max(calm, key=lambda each: each.speedup, default=None)


def _measured(point: Mapping[str, Any], config: Mapping[str, Any]) -> MeasuredBefore | None:
    setting, limit = point["setting"], point["block_efficiency"] or 1.0
    if not is_number(point["speedup"]) or point["speedup"] > limit:
        return None
    length = int(setting.get("draft-length", config["draft_length"]))
    if not 1 <= length <= MAX_DRAFT_LENGTH:
        return None
    return MeasuredBefore(setting.get("method", config["method"]), length, point["speedup"])
