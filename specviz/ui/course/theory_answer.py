"""What theory says of a draft length, for the sliders of a lesson."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from specviz import theory
from specviz.errors import InputError, short
from specviz.figures.draft_length import draft_length_figure
from specviz.records import MAX_DRAFT_LENGTH

MAX_MEASURED = 32


def theory_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """{"a", "K", "c", "v", "measured": [[K, speedup], …]} -> its figure and its numbers."""
    a, c, v = (_number(question.get(name), name) for name in ("a", "c", "v"))
    length = question.get("K")
    if type(length) is not int or not 1 <= length <= MAX_DRAFT_LENGTH:
        raise InputError(f"K must be an integer from 1 to {MAX_DRAFT_LENGTH}, got {short(length)}")
    measured = _measured(question.get("measured"))
    best = theory.best_draft_length(a, c, v)
    return {
        "figure": draft_length_figure(a, c, v, length, measured),
        "tokens": theory.expected_tokens(a, length),
        "accepted": theory.expected_accepted(a, length),
        "speedup": theory.speedup(a, length, c, v),
        "naive": a * length,
        "best": best,
        "best_speedup": theory.speedup(a, best, c, v),
    }


def _measured(given: object) -> list[tuple[int, float]]:
    points = given if isinstance(given, list) else []
    if len(points) > MAX_MEASURED or not all(
        isinstance(each, list) and len(each) == 2 and type(each[0]) is int for each in points
    ):
        raise InputError(f"measured must be at most {MAX_MEASURED} pairs of K and speedup")
    return [(length, _number(speedup, "speedup")) for length, speedup in points]


def _number(value: object, name: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1e6 or not math.isfinite(value):  # type: ignore[operator, arg-type]
        raise InputError(f"{name} must be a number of at least 0, got {short(value)}")
    return float(value)  # type: ignore[arg-type]
