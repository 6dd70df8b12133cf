"""What theory says of a draft length, for the sliders of a lesson."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz import theory
from specviz.errors import InputError
from specviz.figures.draft_length import draft_length_figure
from specviz.records import MAX_DRAFT_LENGTH
from specviz.ui.course.numbers import number_between, whole_between

MAX_MEASURED = 32
LARGEST = 1e6


def theory_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """{"a", "K", "c", "v", "measured": [[K, speedup], …]} -> its figure and its numbers."""
    a = number_between(question.get("a"), "a", 0, 1)
    c, v = (number_between(question.get(name), name, 0, LARGEST) for name in ("c", "v"))
    length = whole_between(question.get("K"), "K", 1, MAX_DRAFT_LENGTH)
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
        isinstance(each, list) and len(each) == 2 for each in points
    ):
        raise InputError(f"measured must be at most {MAX_MEASURED} pairs of K and speedup")
    return [
        (
            whole_between(length, "measured K", 1, MAX_DRAFT_LENGTH),
            number_between(speedup, "speedup", 0, LARGEST),
        )
        for length, speedup in points
    ]
