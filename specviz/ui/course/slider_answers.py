"""The answers to the sliders of two lessons.

`forward_line_answer` fits a line to the measured times of forwards with different numbers of
tokens. `theory_answer` computes the speedup that theory predicts for a draft length. Both check all
fields of the question that the page sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specviz import theory
from specviz.errors import InputError, number_between, whole_between
from specviz.figures.draft_length import draft_length_figure
from specviz.figures.forward_line import forward_line_figure
from specviz.records import MAX_DRAFT_LENGTH

MOST_COUNTS = 32
LARGEST_COUNT = 100_000
# At every measured number of tokens, arithmetic may take less time than reading the weights. The
# line then ends at FURTHER times the largest measured number, where arithmetic may take longer.
FURTHER = 4


def forward_line_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figure of forwards, the fitted line, and how far it is drawn.

    The question is {"counts", "seconds", "chosen"}. "counts" are numbers of tokens in a forward,
    "seconds" are the measured times of these forwards, and "chosen" is the number of tokens at the
    slider, or null.
    """
    counts, seconds = question["counts"], question["seconds"]
    if not isinstance(counts, list) or not isinstance(seconds, list) or len(counts) > MOST_COUNTS:
        raise InputError(f"counts and seconds must be lists of at most {MOST_COUNTS} numbers")
    for count in counts:
        whole_between(count, "counts", 1, LARGEST_COUNT)
    times = [number_between(each, "seconds", 1e-9, 1e6) for each in seconds]
    fit = theory.fitted_line(counts, times)
    chosen = question.get("chosen")
    if chosen is not None:
        chosen = number_between(chosen, "'chosen'", 1, LARGEST_COUNT)
    pairs = list(zip(counts, times, strict=True))
    largest = max(counts)
    is_within = fit.ridge is not None and fit.ridge <= largest
    limit = largest if is_within else FURTHER * largest
    return {
        "figure": forward_line_figure(pairs, fit, limit, chosen),
        "limit": limit,
        "read_seconds": fit.read_seconds,
        "token_seconds": fit.token_seconds,
        "ridge": fit.ridge,
        "chosen_seconds": None if chosen is None else fit.at(chosen),
    }


MAX_MEASURED = 32
LARGEST = 1e6


def theory_answer(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figure and the numbers for a draft length.

    The question is {"a", "K", "c", "v", "measured": [[K, speedup], …]}. a is the acceptance rate
    and K the draft length. c is the cost ratio: a draft forward's time in target forwards. v is the
    verification overhead, also in target forwards. "measured" has points to show next to theory.
    """
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
        raise InputError(f"'measured' must be at most {MAX_MEASURED} pairs of K and speedup")
    return [
        (
            whole_between(length, "measured K", 1, MAX_DRAFT_LENGTH),
            number_between(speedup, "speedup", 0, LARGEST),
        )
        for length, speedup in points
    ]
