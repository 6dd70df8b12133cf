"""The roofline of forwards that were measured, for the slider of a lesson."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz.errors import InputError, short
from specviz.figures.roofline import roofline_figure
from specviz.theory import fitted_roofline
from specviz.ui.course.numbers import number_between

MOST_COUNTS = 32
LARGEST_COUNT = 100_000


def roofline_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """{"counts", "seconds", "chosen": a count or None} -> its figure and the two fitted numbers."""
    counts, seconds = question["counts"], question["seconds"]
    if not isinstance(counts, list) or not isinstance(seconds, list) or len(counts) > MOST_COUNTS:
        raise InputError(f"counts and seconds must be lists of at most {MOST_COUNTS} numbers")
    if any(type(count) is not int or not 1 <= count <= LARGEST_COUNT for count in counts):
        rule = f"whole numbers from 1 to {LARGEST_COUNT}"
        raise InputError(f"counts must be {rule}, got {short(counts)}")
    times = [number_between(each, "seconds", 1e-9, 1e6) for each in seconds]
    fit = fitted_roofline(counts, times)
    chosen = question.get("chosen")
    if chosen is not None:
        chosen = number_between(chosen, "chosen", 1, LARGEST_COUNT)
    pairs = list(zip(counts, times, strict=True))
    return {
        "figure": roofline_figure(pairs, fit, chosen),
        "read_seconds": fit.read_seconds,
        "token_seconds": fit.token_seconds,
        "ridge": fit.ridge,
        "chosen_seconds": None if chosen is None else fit.at(chosen),
    }
