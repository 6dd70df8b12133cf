"""The closed forms agree with their definitions, with simulation and with each other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import InputError
from specviz.theory import (
    best_draft_length,
    break_even_acceptance,
    expected_accepted,
    expected_tokens,
    speedup,
)

ACCEPTANCES = st.floats(0, 1)
LENGTHS = st.integers(1, 32)
COSTS = st.floats(0, 2)
ROUNDS = 400_000


@given(st.floats(0, 0.99), LENGTHS)
def test_the_expected_tokens_equal_the_geometric_closed_form(a: float, K: int) -> None:
    assert expected_tokens(a, K) == pytest.approx((1 - a ** (K + 1)) / (1 - a))


def simulated_tokens(rates: Sequence[float]) -> float:
    """Simulate rounds in which a token at depth d is accepted with probability rates[d].

    Return the mean number of tokens per forward.
    """
    draws = np.random.default_rng(1).random((ROUNDS, len(rates)))
    accepted = np.logical_and.accumulate(draws < np.asarray(rates), axis=1).sum(axis=1)
    return float(1 + accepted.mean())


@pytest.mark.parametrize("a", [0.1, 0.4, 0.7, 0.9])
@pytest.mark.parametrize("K", [1, 4, 16])
def test_tokens_and_speedup_agree_with_simulated_rounds_to_one_percent(a: float, K: int) -> None:
    tokens, c, v = simulated_tokens([a] * K), 0.12, 0.3
    assert expected_tokens(a, K) == pytest.approx(tokens, rel=0.01)
    assert expected_accepted(a, K) == pytest.approx(tokens - 1, rel=0.01)
    assert speedup(a, K, c, v) == pytest.approx(tokens * 1 / (K * c + 1 + v), rel=0.01)


def test_perfect_acceptance_emits_all_tokens_and_no_acceptance_emits_one() -> None:
    assert expected_tokens(1, 5) == 6
    assert expected_tokens(0, 5) == 1
    assert expected_accepted(0, 5) == 0


def test_a_rejection_drops_later_tokens_so_fewer_than_a_times_k_are_accepted() -> None:
    # A round accepts fewer tokens than 0.8 * 5 = 4.
    assert round(expected_accepted(0.8, 5), 2) == 2.69


@given(ACCEPTANCES, COSTS, st.floats(0, 1))
def test_no_draft_length_beats_the_best_one(a: float, c: float, v: float) -> None:
    best = speedup(a, best_draft_length(a, c, v), c, v)
    assert all(speedup(a, K, c, v) <= best for K in range(1, 33))


def test_a_free_draft_that_is_always_right_should_be_as_long_as_possible() -> None:
    assert best_draft_length(1, 0) == 32


@given(LENGTHS, st.floats(0, 0.9), st.floats(0, 0.5))
def test_speculation_breaks_even_at_the_break_even_acceptance(K: int, c: float, v: float) -> None:
    a = break_even_acceptance(K, c, v)
    if a is None:
        assert speedup(1, K, c, v) < 1
    else:
        assert speedup(a, K, c, v) == pytest.approx(1, abs=1e-6)


def test_a_draft_as_slow_as_the_target_needs_perfect_acceptance() -> None:
    assert break_even_acceptance(4, 1) == pytest.approx(1)
    assert break_even_acceptance(4, 1.01) is None


@pytest.mark.parametrize(
    ("call", "arguments", "message"),
    [
        (expected_tokens, (1.1, 5), "a must be a number from 0 to 1, got 1.1"),
        (expected_tokens, (-0.1, 5), "a must be a number from 0 to 1, got -0.1"),
        (expected_tokens, (math.nan, 5), "a must be a number from 0 to 1, got nan"),
        (expected_tokens, (True, 5), "a must be a number from 0 to 1, got True"),
        (expected_tokens, (0.5, -1), "K must be a whole number of at least 0, got -1"),
        (expected_tokens, (0.5, 2.5), "K must be a whole number of at least 0, got 2.5"),
        (speedup, (0.5, 4, -0.1), "c must be a number of at least 0, got -0.1"),
        (speedup, (0.5, 4, 0.1, math.inf), "v must be a number of at least 0, got inf"),
        (break_even_acceptance, (0, 0.1), "K must be a whole number of at least 1, got 0"),
    ],
)
def test_a_number_out_of_bounds_is_refused(
    call: Callable[..., Any], arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(InputError) as error:
        call(*arguments)
    assert str(error.value) == message
