"""The consequences of a claim's numbers agree with inverted formulas and with exact means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz import theory
from specviz.claims.all_claims import CLAIMS
from specviz.claims.claim import ClaimVerdict
from specviz.claims.theory_rules import (
    USUAL_COST_RATIOS,
    agrees,
    cost_ratio,
    needed_acceptance,
    short_output_speedup,
    some_usual_cost,
    whole_speedup,
)
from specviz.theory import expected_seconds

RATES, LENGTHS, COSTS = st.floats(0.1, 0.95), st.integers(1, 12), st.floats(0.01, 0.5)


@given(RATES, LENGTHS, COSTS)
def test_the_cost_that_a_speedup_implies_gives_that_speedup(a: float, K: int, c: float) -> None:
    gain = theory.speedup(a, K, c)
    assert cost_ratio(theory.expected_tokens(a, K), gain, K) == pytest.approx(c)


@given(RATES, LENGTHS, COSTS)
def test_the_acceptance_that_a_speedup_implies_gives_that_speedup(
    a: float, K: int, c: float
) -> None:
    gain = theory.speedup(a, K, c)
    if gain >= 1:
        assert needed_acceptance(gain, K, c) == pytest.approx(a, abs=1e-6)
    assert needed_acceptance((K + 1.01) / theory.round_cost(K, c), K, c) is None


@given(st.integers(2, 60), RATES, LENGTHS, COSTS)
def test_a_short_output_gains_at_least_its_bound(tokens: int, a: float, K: int, c: float) -> None:
    """The bound is compared with the exact mean speedup over all sequences of full rounds."""
    survival = [a**depth for depth in range(1, K + 1)]
    seconds = expected_seconds(tokens - 1, survival, [theory.round_cost(K, c)] * (K + 1))
    bound = short_output_speedup(tokens, a, K, c)
    assert bound <= (tokens - 1) / seconds + 1e-9
    assert bound == pytest.approx(theory.speedup(a, K, c) * (tokens - 1) / (tokens - 1 + K))


@given(st.floats(0.1, 10), st.floats(0, 1))
def test_the_time_of_a_request_is_its_prefill_and_its_decoding_divided_by_the_speedup(
    gain: float, share: float
) -> None:
    seconds = share + (1 - share) / gain
    assert whole_speedup(gain, share) == pytest.approx(1 / seconds)


def test_a_difference_of_at_most_a_tenth_is_agreement() -> None:
    assert agrees(10, 9) and agrees(10, 11) and agrees(-10, -9)
    assert not agrees(10, 8.99) and not agrees(10, 11.01)


def test_usual_costs_are_from_a_fiftieth_to_three_tenths() -> None:
    assert (USUAL_COST_RATIOS[0], USUAL_COST_RATIOS[-1]) == (0.02, 0.3)
    assert some_usual_cost(lambda c: c >= 0.3) and some_usual_cost(lambda c: c <= 0.02)
    assert not some_usual_cost(lambda c: c > 0.3) and not some_usual_cost(lambda c: c < 0.02)


def test_a_draft_that_lacks_tokens_is_exact_and_accepts_at_most_the_shared_mass() -> None:
    """The test computes claim 20 by hand with p = (.5, .2, .2, .1) and q = (.7, .3, 0, 0)."""
    found = CLAIMS[20].theory()
    values = {each.name: each.value for each in found.numbers}
    assert values["total variation to p"] == 0
    assert values["accepted"] == pytest.approx(min(0.5, 0.7) + min(0.2, 0.3))
    assert values["accepted at most"] == pytest.approx(0.5 + 0.2)
    assert found.verdict is ClaimVerdict.WRONG
    fuller = CLAIMS[20].theory(q=(0.25, 0.25, 0.25, 0.25))
    assert {e.name: e.value for e in fuller.numbers}["accepted at most"] == pytest.approx(1.0)
