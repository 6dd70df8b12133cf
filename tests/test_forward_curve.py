"""Forward times for token counts that were not measured are interpolated along straight lines."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from specviz.errors import InputError
from specviz.forward_curve import ForwardCurve

CURVE = ForwardCurve((1, 2, 4, 8), (2.0, 2.0, 3.0, 7.0))


def test_a_measured_count_takes_its_measured_time() -> None:
    assert [CURVE.at(count) for count in CURVE.token_counts] == list(CURVE.seconds)


@pytest.mark.parametrize(
    ("count", "seconds"),
    [(1.5, 2), (3, Fraction(5, 2)), (6, 5), (7, 6), (9, 8), (65, 64)],
)
def test_times_between_and_beyond_measured_counts_follow_straight_lines(
    count: float, seconds: Fraction
) -> None:
    assert CURVE.at(count) == pytest.approx(float(seconds))


@pytest.mark.parametrize("count", [0, 0.9, -1, math.nan])
def test_a_forward_over_less_than_one_token_is_refused(count: float) -> None:
    with pytest.raises(InputError, match="count must be at least 1"):
        CURVE.at(count)


@pytest.mark.parametrize(
    ("counts", "seconds", "message"),
    [
        ((1,), (1.0,), "token_counts and seconds must have the same length"),
        ((1, 2), (1.0,), "token_counts and seconds must have the same length"),
        ((2, 4), (1.0, 1.0), "token_counts must rise from 1, got (2, 4)"),
        ((1, 1), (1.0, 1.0), "token_counts must rise from 1, got (1, 1)"),
        ((1, 2), (1.0, 0.5), "seconds must be positive and must not fall"),
        ((1, 2), (0.0, 1.0), "seconds must be positive"),
        ((1, 2), (1.0, math.nan), "seconds must be positive"),
    ],
)
def test_a_malformed_curve_is_refused(
    counts: tuple[int, ...], seconds: tuple[float, ...], message: str
) -> None:
    with pytest.raises(InputError) as error:
        ForwardCurve(counts, seconds)
    assert str(error.value).startswith(message)
