"""A sweep measures every point of its grid, in blocks, and may be stopped at any moment."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from specviz.errors import InputError
from specviz.experiments.sweep.sweep_setting import SweepSetting
from specviz.experiments.sweep.sweeping import Place, Sweep, SweepPlan, noise_ratios
from specviz.models.pair_catalog import pair_named
from specviz.records import DecodingConfig
from specviz.slices import Stopped, stoppable

CONFIG = DecodingConfig(max_new_tokens=10)
SETTING = SweepSetting(pair_named("bundled"), CONFIG, prompts=2, device="cpu")
PLAN = SweepPlan(SETTING, (("draft-length", (1, 4)), ("temperature", (0.0, 0.8))), repeats=2)


@pytest.fixture(scope="module")
def swept() -> Sweep:
    sweep = Sweep(PLAN)
    steps = list(sweep)
    counts = [step.done for step in steps]
    assert counts == sorted(counts) and counts[-1] == 4
    assert steps[-1].seconds_left == 0
    assert [step.point["setting"] for step in steps if step.point] == [dict(p) for p in PLAN.places]
    return sweep


def test_the_grid_has_every_combination_and_the_last_axis_changes_fastest() -> None:
    assert PLAN.places[1] == (("draft-length", 1), ("temperature", 0.8))
    assert len(PLAN.places) == 4


@pytest.mark.parametrize("place", PLAN.places, ids=str)
def test_a_point_contains_what_was_measured(swept: Sweep, place: Place) -> None:
    point = swept.points[place]
    low, high = point["speedup_spread"]
    assert len(point["speedups"]) in range(2, 5) and 0 < low <= point["speedup"] <= high
    rates = point["tokens_per_second"], point["baseline_tokens_per_second"]
    assert point["speedup"] == pytest.approx(rates[0] / rates[1])
    assert 1 <= point["block_efficiency"] <= dict(place)["draft-length"] + 1
    assert 0 <= point["draft_utilization"] <= point["acceptance_rate"] <= 1
    assert point["rejection_rate"] == pytest.approx(1 - point["acceptance_rate"])
    assert len(point["acceptance_by_depth"]) <= dict(place)["draft-length"]
    low, high = point["theory_band"]
    assert 0 < low <= point["theory_speedup"] <= high
    assert point["draft_seconds"] > 0 and point["verify_seconds"] > 0
    assert point["cost_ratio"] > 0 and point["ttft_seconds"] > 0
    assert point["drafter_bytes"] > 1_000_000 and point["drafter_cache_bytes"] > 10_000


def test_the_theory_of_a_point_follows_from_its_own_acceptance_and_costs(swept: Sweep) -> None:
    for point in swept.points.values():
        a, c, v = (point[name] for name in ("acceptance_rate", "cost_ratio", "verify_overhead"))
        K = point["setting"]["draft-length"]
        tokens = sum(a**depth for depth in range(K + 1))
        # Near the limit of new tokens, the last rounds may draft fewer than K tokens.
        assert point["theory_speedup"] == pytest.approx(tokens / (1 + K * c + v), rel=0.3)


def test_known_points_are_not_measured_again(swept: Sweep) -> None:
    first, *others = PLAN.places
    known = {first: {"setting": dict(first), "speedup": 1.0}}
    again = Sweep(PLAN, known)
    for step in again:
        if step.point is not None:
            assert step.point["setting"] == dict(others[0])
            break
    assert again.points[first] == known[first]


def test_a_stopped_sweep_keeps_its_measurements() -> None:
    sweep = Sweep(PLAN)
    steps = iter(sweep)
    for step in steps:
        if step.point is not None:
            break
    steps.close()  # type: ignore[attr-defined]
    assert list(sweep.points) == [PLAN.places[0]]


def test_a_stop_interrupts_a_run_of_the_noise_measurement() -> None:
    stop = threading.Event()
    pairs = stoppable(noise_ratios(SETTING, 3), stop)
    stop.set()
    with pytest.raises(Stopped):
        next(pairs)


def test_the_baseline_is_as_fast_as_itself_apart_from_noise() -> None:
    ratios = list(noise_ratios(SETTING, 3))
    assert len(ratios) == 3 and all(0.2 < ratio < 5 for ratio in ratios)


@pytest.mark.parametrize(
    ("axes", "repeats", "message"),
    [
        ((), 2, "axis must name one or two different axes, got "),
        ((("top-p", (1.0,)), ("top-p", (0.5,))), 2, "axis must name one or two different axes"),
        ((("draft-length", (1,)),), 0, "repeat must be a whole number from 1 to 100, got 0"),
        ((("draft-length", (33,)),), 1, "draft_length must be a whole number from 1 to 32, got 33"),
        ((("temperature", (-1.0,)),), 1, "temperature must be 0 or from"),
        ((("batch-size", (65,)),), 1, "batch_size must be a whole number from 1 to 64, got 65"),
        ((("prompt-length", (0,)),), 1, "prompt-length must be a whole number from 1 to"),
    ],
)
def test_a_plan_that_breaks_a_rule_is_refused_before_anything_runs(
    axes: tuple[object, ...], repeats: int, message: str
) -> None:
    with pytest.raises(InputError) as error:
        SweepPlan(SETTING, axes, repeats)  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_a_batch_is_compared_with_a_plain_batch() -> None:
    plan = SweepPlan(SETTING, (("batch-size", (1, 3)),), repeats=1)
    sweep = Sweep(plan)
    steps = list(sweep)
    assert steps[-1].seconds_left == 0 and len(steps) >= 2 * 2 + 2 * 1 + 2
    alone, three = (sweep.points[place] for place in plan.places)
    # The batch of three rows has two prompts, so the first one occurs twice.
    assert three["prompt_tokens"] != alone["prompt_tokens"]
    assert three["rounds"] > alone["rounds"]
    assert three["drafter_cache_bytes"] > alone["drafter_cache_bytes"]
    spent = sum(
        three[f"{part}_seconds"] for part in ("prefill", "draft_prefill", "draft", "verify", "host")
    )
    tokens = 3 * CONFIG.max_new_tokens
    assert three["tokens_per_second"] == pytest.approx(tokens / spent)
    assert 0 < three["theory_band"][0] <= three["theory_speedup"] <= three["theory_band"][1]


def test_every_row_of_a_swept_batch_obeys_the_draft_budget() -> None:
    setting = replace(SETTING, batch_size=2)
    plan = SweepPlan(setting, (("draft-budget", (2,)),), repeats=1)
    sweep = Sweep(plan)
    list(sweep)
    (point,) = sweep.points.values()
    assert CONFIG.draft_length > 2 >= len(point["acceptance_by_depth"]) > 0


def test_rounds_with_more_sequences_than_the_limit_draft_nothing() -> None:
    plan = SweepPlan(replace(SETTING, batch_size=2), (("speculate-up-to", (1,)),), repeats=1)
    sweep = Sweep(plan)
    list(sweep)
    (point,) = sweep.points.values()
    assert point["block_efficiency"] == 1 and point["draft_utilization"] is None
