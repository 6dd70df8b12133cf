"""The simulation of random arrivals agrees with results that need no simulation."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

from specviz.sizing.serving_plan import read_plan
from specviz.sizing.simulated_load import _Engine, by_load, simulate
from specviz.sizing.sized_plan import Policy, SizedPlan

SMALL = {"target": "llama-3-1-8b", "gpus": 1, "output": 64, "draft_length": 3}


def sized(**fields: Any) -> SizedPlan:
    return SizedPlan(read_plan(SMALL | fields))


def test_the_same_seed_gives_the_same_numbers_and_another_seed_other_ones() -> None:
    found = sized()
    first = simulate(found, Policy.SPECULATIVE, 5, seed=1)
    assert first == simulate(found, Policy.SPECULATIVE, 5, seed=1)
    assert first != simulate(found, Policy.SPECULATIVE, 5, seed=2)


def test_a_single_request_takes_its_prefill_and_its_rounds() -> None:
    found = sized()
    plain = simulate(found, Policy.PLAIN, 0.001)
    assert plain.first_token_p95 == pytest.approx(found.first_token_seconds(0))
    assert plain.token_p50 == pytest.approx(found.step_seconds(1))
    fast = simulate(found, Policy.SPECULATIVE, 0.001)
    assert plain.token_p50 / fast.token_p50 == pytest.approx(found.speedup(1, 3), rel=0.1)


def test_the_mean_number_of_rows_is_the_request_rate_times_their_decoding_time() -> None:
    """The mean number of rows follows Little's law."""
    found = sized()
    plain = simulate(found, Policy.PLAIN, 20)
    assert plain.mean_rows == pytest.approx(20 * 63 * plain.token_p50, rel=0.2)


def test_more_load_means_longer_waiting_until_the_queue_grows_without_limit() -> None:
    found = sized()
    light, heavy, endless = (simulate(found, Policy.PLAIN, load) for load in (5, 50, 5000))
    assert light.first_token_p95 < heavy.first_token_p95 < endless.first_token_p95
    assert light.token_p50 < heavy.token_p50
    assert (light.keeps_up, endless.keeps_up) == (True, False)
    assert light.goodput == 5 and endless.within_limits < 1


def test_the_switched_policy_speculates_if_it_pays_and_is_plain_otherwise() -> None:
    found = sized(acceptance=0.9, draft="llama-3-2-3b", draft_length=6)
    loses = sized(acceptance=0.1, draft="llama-3-2-3b", draft_length=6)
    assert found.paying_batches is not None and loses.paying_batches is None
    plain, switched = (simulate(loses, each, 5) for each in (Policy.PLAIN, Policy.SWITCHED))
    assert plain.token_p95 == switched.token_p95
    fast, switched = (simulate(found, each, 0.01) for each in (Policy.SPECULATIVE, Policy.SWITCHED))
    assert fast.token_p95 == switched.token_p95


def test_a_model_that_fits_on_no_card_is_not_simulated() -> None:
    assert by_load(sized(target="llama-3-1-405b")) == []


CARDS = {"gpus": 2, "precision": "fp8", "draft": "llama-3-1-8b", "draft_precision": "fp8"}
POPULAR = CARDS | {"acceptance": 0.73, "draft_length": 4, "batch": 1, "token_limit": 33, "load": 6}


def test_near_its_capacity_the_engine_is_full_before_requests_are_counted() -> None:
    found = SizedPlan(read_plan(POPULAR))
    plain = simulate(found, Policy.PLAIN, 12)
    assert plain.keeps_up and 0.3 < plain.within_limits < 0.8
    assert plain.mean_rows == pytest.approx(12 * 255 * plain.token_p50, rel=0.1)


@pytest.mark.slow
def test_simulating_all_loads_of_a_page_takes_at_most_two_seconds() -> None:
    found = SizedPlan(read_plan(POPULAR))
    start = process_time()
    # The page simulates eight loads. One of them, 6 requests per second, is the load in the plan
    # itself.
    assert len({each["load"] for each in by_load(found)} | {6}) == 8
    assert process_time() - start < 2


def test_the_first_token_waits_for_at_most_two_steps_for_any_answer_length() -> None:
    for output in (1024, 8192):
        found = sized(output=output)
        rounds = simulate(found, Policy.PLAIN, 0.1).first_token_p95 - found.first_token_seconds(0)
        assert rounds < 2 * found.step_seconds(4)


def test_with_more_arrivals_than_the_engine_can_serve_nobody_is_within_the_limits() -> None:
    found = sized()
    most = found.capacity(Policy.PLAIN)
    below, above = (simulate(found, Policy.PLAIN, share * most) for share in (0.9, 1.1))
    assert (below.keeps_up, above.keeps_up) == (True, False)
    assert below.goodput > 0 and above.goodput == above.within_limits == 0


MIXTURE = {"target": "mixtral-8x7b", "draft": "mistral-7b", "gpus": 2, "acceptance": 0.7}


@pytest.mark.parametrize("plan", [{}, MIXTURE, {"prompt": 32, "output": 16}], ids=str)
@pytest.mark.parametrize("policy", [Policy.PLAIN, Policy.SPECULATIVE])
def test_with_a_tenth_too_many_requests_as_many_end_as_computed(plan: Any, policy: Policy) -> None:
    """The computed capacity must be right for very different plans.

    In some of these plans K depends on the batch size. In others the time of a forward hardly
    depends on the batch size.
    """
    found = SizedPlan(read_plan(plan))
    engine = _Engine(found, policy, 1.1 * found.capacity(policy), 0)
    engine.run_until(60.0)  # after 60 s of simulated time the engine is full
    before, began = len(engine.ended), engine.now
    engine.run_until(160.0)
    rate = (len(engine.ended) - before) / (engine.now - began)
    assert rate == pytest.approx(found.capacity(policy), rel=0.04)


def test_prompts_that_are_prefilled_together_increase_the_capacity() -> None:
    found = sized(prompt=32, output=16)
    one_by_one = 1 / (found.first_token_seconds(0) + 15 * found.step_seconds(256) / 256)
    assert simulate(found, Policy.PLAIN, 3 * one_by_one).keeps_up
    assert found.speeds(256, 0).requests_per_second > 3 * one_by_one
    assert found.goodput(Policy.PLAIN)[1] > 3 * one_by_one
    assert not simulate(found, Policy.PLAIN, 10 * one_by_one).keeps_up


def test_if_k_follows_the_batch_a_single_request_is_as_fast_as_computed() -> None:
    found = SizedPlan(read_plan({}))
    rows = found.seats(Policy.SPECULATIVE)
    assert found.length(Policy.SPECULATIVE, rows) < found.length(Policy.SPECULATIVE, 1)
    light = simulate(found, Policy.SPECULATIVE, 0.01)
    assert light.token_p50 == pytest.approx(
        found.speeds(1, found.length(Policy.SPECULATIVE, 1)).token, rel=0.05
    )
