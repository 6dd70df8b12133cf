"""The number of machines and their cost follow from a load, a rate and a price."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.errors import InputError
from specviz.serving_cost import LARGEST, SECONDS_A_DAY, SMALLEST, Load, Machine, daily_cost

RATES = st.floats(1, 1e5)
LOADS = st.floats(1e3, 1e10)


@given(LOADS, RATES, st.floats(1, 10))
def test_the_machines_carry_the_busiest_hour_and_one_fewer_would_not(
    tokens: float, rate: float, peak: float
) -> None:
    load = Load(tokens, peak)
    machines = daily_cost(load, Machine(rate, 1.0)).machines
    need = load.tokens_per_second * peak
    assert machines >= 1 and machines * rate >= need * (1 - 1e-6)
    assert (machines - 1) * rate < need


def test_a_faster_machine_saves_money_only_if_it_saves_a_whole_machine() -> None:
    slow, fast = (daily_cost(Load(10e6), Machine(rate, 5.0)) for rate in (125, 250))
    assert slow.machines == fast.machines == 1 and slow.money == fast.money == 120
    assert fast.utilisation == pytest.approx(slow.utilisation / 2)
    slow, fast = (daily_cost(Load(100e6), Machine(rate, 5.0)) for rate in (125, 250))
    assert (slow.machines, fast.machines) == (10, 5)
    assert fast.money_per_million_tokens == pytest.approx(6)


def test_the_smallest_load_still_needs_one_machine() -> None:
    cost = daily_cost(Load(1), Machine(20_000, 1.0))
    assert cost.machines == 1 and cost.money == 24 and 0 < cost.utilisation < 1e-9


@pytest.mark.parametrize("rate", [41.3, 83.7, 99.9])
def test_rounding_errors_do_not_add_a_machine(rate: float) -> None:
    load = Load(3 * rate * SECONDS_A_DAY)
    # because of rounding errors the quotient is slightly above 3, and rounding up would give 4
    # machines
    assert load.tokens_per_second / rate > 3
    assert daily_cost(load, Machine(rate, 1.0)).machines == 3


def test_extreme_numbers_have_finite_costs() -> None:
    for tokens, rate, price in ((LARGEST, SMALLEST, LARGEST), (SMALLEST, LARGEST, LARGEST)):
        cost = daily_cost(Load(tokens, LARGEST), Machine(rate, price))
        assert cost.machines >= 1
        assert all(map(math.isfinite, (cost.money, cost.money_per_million_tokens)))
    with pytest.raises(InputError, match="tokens_per_second must be a number from 1e-09"):
        Machine(1e-320, 1.0)


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf])
def test_invalid_numbers_are_refused_by_name(value: float) -> None:
    with pytest.raises(InputError, match="tokens_per_day must be a number from 1e-09"):
        Load(value)
    with pytest.raises(InputError, match="peak_factor must be a number from 1"):
        Load(1e6, value)
    with pytest.raises(InputError, match="tokens_per_second must be a number from 1e-09"):
        Machine(value, 1)
    if value != 0:
        with pytest.raises(InputError, match="price_per_hour must be a number from 0"):
            Machine(1, value)
