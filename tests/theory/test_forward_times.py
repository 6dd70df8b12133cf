"""Forward times show when arithmetic becomes the limit, and which batches gain from drafts."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import InputError
from specviz.forward_curve import ForwardCurve
from specviz.theory import (
    MAX_BATCH,
    ForwardLine,
    bandwidth_limit,
    batch_speedup,
    fitted_line,
    largest_paying_batch,
    peak_share,
    speedup,
    touched_experts,
)

COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
RATES = st.floats(0.05, 0.95)
LENGTHS = st.integers(1, 12)


def roof(memory: float, token: float) -> ForwardCurve:
    """Return the roofline t(n) = max(memory, n * token) at the token counts in COUNTS."""
    return ForwardCurve(COUNTS, tuple(max(memory, count * token) for count in COUNTS))


@given(st.floats(1, 256))
def test_between_measured_counts_the_curve_is_a_straight_line(count: float) -> None:
    assert roof(1e-9, 2.0).at(count) == pytest.approx(2 * count)


def test_beyond_the_last_count_the_curve_keeps_its_last_slope() -> None:
    assert roof(32.0, 1.0).at(1024) == 1024
    assert roof(1e6, 1.0).at(1024) == 1e6


@given(RATES, LENGTHS, st.floats(0.01, 1))
def test_the_speedup_of_one_row_is_the_closed_form_with_its_verification_cost(
    a: float, K: int, c: float
) -> None:
    target, draft = roof(1.0, 0.2), roof(c, 0.0)
    cost = target.at(K + 1) / target.at(1) - 1
    assert batch_speedup(a, K, 1, target, draft) == pytest.approx(speedup(a, K, c, cost))


@given(RATES, LENGTHS)
def test_if_arithmetic_is_the_limit_a_round_loses_time(a: float, K: int) -> None:
    target, draft = roof(1.0, 1.0), roof(0.001, 0.0)
    assert batch_speedup(a, K, 4, target, draft) < 1
    assert largest_paying_batch(a, K, target, draft) == 0


@given(RATES, LENGTHS, st.floats(0, 0.2))
def test_speculation_pays_up_to_its_last_batch_and_not_with_one_more_row(
    a: float, K: int, c: float
) -> None:
    target, draft = roof(1.0, 1 / 24), roof(max(c, 1e-6), 0.0)
    most = largest_paying_batch(a, K, target, draft)
    assert most < MAX_BATCH
    assert all(batch_speedup(a, K, rows, target, draft) > 1 for rows in range(1, most + 1))
    assert batch_speedup(a, K, most + 1, target, draft) <= 1


def test_on_a_roofline_a_larger_batch_never_gains_more_than_a_smaller_one() -> None:
    target, draft = roof(1.0, 1 / 24), roof(0.05, 0.0)
    gains = [batch_speedup(0.8, 4, rows, target, draft) for rows in range(1, 33)]
    assert all(low >= high - 1e-12 for low, high in pairwise(gains))


def test_decoding_one_row_uses_less_than_a_percent_of_the_peak() -> None:
    assert peak_share(1, 2, 989e12, 3.35e12) == pytest.approx(0.0034, abs=1e-4)
    assert peak_share(10_000, 2, 989e12, 3.35e12) == 1


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
def test_a_machine_without_bandwidth_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="bytes_per_second must be a positive number"):
        bandwidth_limit(1e9, value)
    with pytest.raises(InputError, match="weight_bytes must be a positive number"):
        bandwidth_limit(value, 1e9)


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan])
@pytest.mark.parametrize(
    "name", ["tokens", "bytes_per_weight", "flops_per_second", "bytes_per_second"]
)
def test_a_share_of_the_peak_needs_positive_numbers(name: str, value: float) -> None:
    whole: dict[str, Any] = {"tokens": 1, "bytes_per_weight": 2.0}
    whole |= {"flops_per_second": 1e15, "bytes_per_second": 1e12}
    with pytest.raises(InputError, match=f"{name} must be a positive number, got"):
        peak_share(**whole | {name: value})


def test_a_fit_finds_the_line_behind_exact_times_and_is_close_for_noisy_ones() -> None:
    made, counts = ForwardLine(0.04, 0.003), (1, 2, 4, 6, 8, 16, 32, 64)
    exact = fitted_line(counts, [made.at(count) for count in counts])
    assert exact.read_seconds == pytest.approx(0.04) and exact.ridge == pytest.approx(40 / 3)
    noise = (1.1, 0.95, 1.05, 0.9, 1.0, 1.1, 0.92, 1.03)
    times = [made.at(count) * each for count, each in zip(counts, noise, strict=True)]
    assert fitted_line(counts, times).read_seconds == pytest.approx(0.04, rel=0.05)
    assert fitted_line(counts, times).token_seconds == pytest.approx(0.003, rel=0.1)
    with pytest.raises(
        InputError, match="counts and seconds must have the same length, at least three, got"
    ):
        fitted_line((1, 2), (1.0, 2.0))
    with pytest.raises(InputError, match="seconds must be a positive number, got 0"):
        fitted_line((1, 2, 4), (1.0, 0.0, 2.0))


def test_times_that_fall_with_more_tokens_are_fitted_without_a_negative_number() -> None:
    flat = fitted_line((1, 2, 4), (4.0, 3.9, 3.8))
    assert flat.token_seconds == 0 and flat.ridge is None
    assert flat.read_seconds == pytest.approx(3.9, rel=0.01)
    steep = fitted_line((1, 2, 4), (1.0, 2.5, 6.0))
    assert steep.read_seconds == 0 and steep.ridge == 0


def test_the_recorded_forwards_of_a_lesson_fit_a_sum_better_than_a_maximum() -> None:
    """assets/lessons/recorded/forwards.json.gz has the times of SmolLM2 135M on an AMD EPYC."""
    counts = (1, 2, 4, 6, 8, 16, 32, 64)
    times = (17.16, 17.14, 16.54, 17.77, 19.22, 22.51, 36.65, 61.19)

    def misfit(at: Callable[[int], float]) -> float:
        return math.fsum((at(n) / time - 1) ** 2 for n, time in zip(counts, times, strict=True))

    corners = [
        misfit(lambda n, read=read, each=each: max(read / 10, n * each / 100))
        for read in range(150, 220)
        for each in range(50, 160)
    ]
    assert misfit(fitted_line(counts, times).at) < min(corners)


def test_more_tokens_use_more_experts_but_never_more_than_all() -> None:
    touched = [touched_experts(8, 2, tokens) for tokens in (1, 2, 6, 200)]
    assert touched == sorted(touched) and touched[0] == 2 and touched[-1] == pytest.approx(8)
    assert touched_experts(1, 1, 5) == 1
    with pytest.raises(InputError, match="active must be from 1 to 8 experts, got 9"):
        touched_experts(8, 9, 1)


def test_a_draft_forward_of_many_rows_takes_its_own_longer_time() -> None:
    target, draft = roof(32.0, 1.0), roof(1.0, 0.5)
    # With 16 rows and K = 1, a round gives T = 1.5 tokens per row. The target's times are t(16) =
    # t(32) = 32, and the draft's time is d(16) = 8.
    assert batch_speedup(0.5, 1, 16, target, draft) == pytest.approx(1.5 * 32 / (32 + 8))
