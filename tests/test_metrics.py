"""The numbers of a run, against a tiny trace worked out by hand and against random ones."""

from __future__ import annotations

import dataclasses
import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specviz.decoding.race import race
from specviz.golden import golden_trace
from specviz.metrics import (
    DepthAcceptance,
    Divergence,
    Levels,
    RoundTotals,
    RunMeter,
    acceptance_by_depth,
    acceptance_rate,
    block_efficiency,
    draft_utilization,
    first_divergence,
    levels,
    root_ids,
    speedup_points,
    summarise,
    target_forwards,
)
from specviz.records import BASELINE, SPECULATIVE, FinishReason, TokenStep
from tests.random_rounds import random_round
from tests.random_traces import changed, random_trace
from tests.tiny_trace import chain, tiny_trace


def test_acceptance_rate_is_levels_passed_over_levels_reached() -> None:
    # round 0 reached 2 levels and passed 1, round 1 reached and passed 3
    assert acceptance_rate(tiny_trace().rounds) == pytest.approx(4 / 5)


def test_draft_utilization_is_accepted_over_drafted() -> None:
    assert draft_utilization(tiny_trace().rounds) == pytest.approx(4 / 6)


def test_block_efficiency_is_tokens_per_round() -> None:
    assert block_efficiency(tiny_trace().rounds) == pytest.approx((2 + 4) / 2)


def test_target_forwards_are_the_prefill_and_one_per_round() -> None:
    assert target_forwards(tiny_trace()) == 1 + 2


def test_acceptance_by_depth_is_conditional_on_reaching_the_depth() -> None:
    assert acceptance_by_depth(tiny_trace().rounds) == (
        DepthAcceptance(depth=1, reached=2, passed=2, rate=1.0),
        DepthAcceptance(depth=2, reached=2, passed=1, rate=0.5),
        DepthAcceptance(depth=3, reached=1, passed=1, rate=1.0),
    )


def test_the_lanes_seconds_include_the_prefill() -> None:
    summary = summarise(tiny_trace())
    assert summary.baseline.tokens_per_second == pytest.approx(10)
    assert summary.speculative.tokens_per_second == pytest.approx(17.5)
    assert summary.speedup == pytest.approx(1.75)
    assert summary.baseline.ttft_seconds == summary.speculative.ttft_seconds == 0.1
    assert summary.speculative.draft_seconds == pytest.approx(0.06)
    assert summary.speculative.verify_seconds == pytest.approx(0.22)
    assert summary.speculative.host_seconds == pytest.approx(0.02)


def test_theory_takes_its_costs_from_the_rounds() -> None:
    # c: 0.06 s for 6 levels = 0.01 s each, a tenth of a baseline step
    # v: (0.22 + 0.02) s for 2 rounds = 0.12 s each, a fifth more than a baseline step
    # T(0.8, 3) = 1 + 0.8 + 0.64 + 0.512 = 2.952; 2.952 / (1 + 3 * 0.1 + 0.2) = 1.968
    summary = summarise(tiny_trace())
    assert summary.cost_ratio == pytest.approx(0.1)
    assert summary.verify_overhead == pytest.approx(0.2)
    assert summary.theory_speedup == pytest.approx(1.968)
    band = summary.theory_band
    assert band is not None and band.low < band.expected < band.high


def test_cumulative_speedup_compares_the_times_for_as_many_tokens() -> None:
    # 1 token: 0.1 s against 0.1; 3 tokens: 0.24 s against 0.3; 7 tokens: 0.40 s against 0.7
    points = speedup_points(tiny_trace())
    assert [point.tokens for point in points] == [1, 3, 7]
    assert [point.seconds for point in points] == pytest.approx([0.1, 0.24, 0.4])
    assert [point.speedup for point in points] == pytest.approx([1, 1.25, 1.75])


@pytest.mark.parametrize(("steps", "tokens"), [(0, 1), (1, 1), (3, 3), (5, 3), (6, 7)])
@pytest.mark.parametrize("slow", [0.1, 0.9])
def test_the_speedup_is_over_as_many_tokens_as_both_lanes_have_at_the_end_of_a_round(
    steps: int, tokens: int, slow: float
) -> None:
    """At any moment of a live race, after texts of different lengths, and on an uneven clock."""
    trace = tiny_trace()
    plain = trace.lane(BASELINE).steps[:steps]
    plain = (*plain[:-1], *(dataclasses.replace(last, seconds=slow) for last in plain[-1:]))
    points = speedup_points(made := changed(trace, BASELINE, steps=plain))
    summary = summarise(made)
    assert (points[-1].tokens, points[-1].speedup) == (summary.speedup_tokens, summary.speedup)
    own = {1: 0.1, 3: 0.24, 7: 0.4}[tokens]
    theirs = 0.1 + sum(step.seconds for step in plain[: tokens - 1])
    assert summary.speedup_tokens == tokens and summary.speedup == pytest.approx(theirs / own)


@pytest.mark.parametrize("name", ["draft-model.code", "draft-tree.story", "eagle.chat.smollm2"])
def test_at_every_moment_of_a_recorded_race_the_summary_says_where_the_curve_ends(
    name: str,
) -> None:
    trace = golden_trace(name)
    meter, ends = RunMeter(trace), []
    for each in race({lane.name: lane.events for lane in trace.lanes}):
        meter.add(each.lane, each.event)
        summary, (*_, last) = meter.summary(), (None, *meter.points)
        ends.append((summary.speedup, summary.speedup_tokens))
        assert ends[-1] == ((last.speedup, last.tokens) if last else (None, 0))
        assert summary.speedup_tokens <= min(summary.baseline.tokens, summary.speculative.tokens)
    assert len(set(ends)) > 5


def test_equal_texts_are_identical_and_say_how_many_tokens_were_compared() -> None:
    summary = summarise(tiny_trace())
    assert summary.identical is True and summary.compared == 7
    assert summary.first_divergence is None


def test_a_divergence_has_its_index_and_the_baselines_margin_there() -> None:
    trace = tiny_trace()
    steps = list(trace.lane(BASELINE).steps)
    steps[3] = TokenStep(3, 6, 0.5, 3e-6, 0.1)
    summary = summarise(changed(trace, BASELINE, steps=tuple(steps)))
    assert summary.first_divergence == Divergence(index=4, margin=3e-6)  # index 0 is the prefill's
    assert summary.identical is False and summary.compared == 5


def test_a_token_that_a_finished_lane_lacks_is_a_divergence() -> None:
    trace = tiny_trace()
    fewer_rounds = changed(trace, rounds=trace.rounds[:1])
    summary = summarise(fewer_rounds)
    assert summary.first_divergence == Divergence(index=3, margin=0.25)
    assert summary.identical is False
    fewer_steps = changed(trace, BASELINE, steps=trace.lane(BASELINE).steps[:2])
    assert first_divergence(fewer_steps) == Divergence(index=3, margin=None)


@pytest.mark.parametrize("ending", [None, FinishReason.STOPPED])
def test_while_a_lane_runs_or_was_stopped_only_common_tokens_are_compared(
    ending: FinishReason | None,
) -> None:
    fewer = changed(tiny_trace(), rounds=tiny_trace().rounds[:1])
    for lane in (BASELINE, SPECULATIVE):
        summary = summarise(changed(fewer, lane, finish=ending))
        assert summary.identical is True and summary.compared == 3


def test_a_lane_that_was_not_run_differs_from_nothing() -> None:
    alone = changed(tiny_trace(), prefill=None, rounds=())
    assert summarise(alone).identical is None and first_divergence(alone) is None


def test_a_first_token_that_differs_takes_its_margin_from_the_prefill() -> None:
    trace = tiny_trace()
    plain = trace.lane(BASELINE).prefill
    assert plain is not None
    first = dataclasses.replace(plain.extra, token_id=6)
    prefill = dataclasses.replace(plain, extra=first)
    margin = prefill.position.margin
    diverged = changed(trace, BASELINE, prefill=prefill)
    assert first_divergence(diverged) == Divergence(0, margin)


def test_above_temperature_zero_no_text_is_called_identical_or_different() -> None:
    summary = summarise(random_trace(1, temperature=0.7))
    assert summary.identical is None and summary.first_divergence is None


def test_a_tree_passes_a_level_when_any_child_is_accepted() -> None:
    widths = (3, 2)
    for seed in range(60):
        each = random_round(seed, widths)
        counted = levels(each)
        assert counted.drafted == 2
        assert counted.passed == len(each.accepted)
        assert counted.reached == min(2, counted.passed + 1)


def test_a_cut_round_counts_its_levels_up_to_the_cut() -> None:
    full = chain(4, 2, 0, 0, 0)
    assert levels(full) == Levels(drafted=4, reached=3, passed=2)
    assert levels(dataclasses.replace(full, extra=None)) == Levels(drafted=4, reached=2, passed=2)


def test_a_drafter_that_proposed_nothing_reaches_no_level() -> None:
    empty = random_round(0, widths=())
    totals = RoundTotals([empty])
    assert levels(empty) == Levels(0, 0, 0)
    assert totals.acceptance_rate is None and totals.draft_utilization is None
    assert totals.block_efficiency == 1 and totals.acceptance_by_depth == ()


def test_theory_expects_a_slowdown_of_rounds_that_draft_nothing() -> None:
    trace = tiny_trace()
    empty = dataclasses.replace(chain(0, 0, 0.01, 0.1, 0.0), index=0)
    summary = summarise(changed(trace, rounds=(empty, empty)))
    assert summary.cost_ratio == 0 and summary.theory_speedup == pytest.approx(1)


def test_lanes_that_have_not_started_have_no_numbers() -> None:
    summary = summarise(tiny_trace().unstarted)
    assert summary.baseline.tokens == summary.speculative.tokens == 0
    assert summary.speedup is None and summary.identical is None
    assert summary.theory_speedup is None and summary.theory_band is None
    assert summary.speculative.ttft_seconds is None
    assert speedup_points(tiny_trace().unstarted) == ()


def test_a_lane_alone_has_its_own_numbers_but_no_speedup() -> None:
    trace = changed(tiny_trace(), BASELINE, prefill=None, steps=())
    summary = summarise(trace)
    assert summary.speculative.tokens == 7
    assert (summary.speedup, summary.speedup_tokens) == (None, 0)
    assert summary.speculative.acceptance_rate == pytest.approx(0.8)


def test_steps_without_duration_do_not_divide_by_zero() -> None:
    trace = tiny_trace()
    assert trace.prefill is not None
    prefill = dataclasses.replace(trace.prefill, seconds=0.0)
    steps = tuple(dataclasses.replace(step, seconds=0.0) for step in trace.lane(BASELINE).steps)
    rounds = tuple(chain(2, 1, 0, 0, 0) for _ in range(2))
    frozen = changed(trace, BASELINE, prefill=prefill, steps=steps)
    frozen = changed(frozen, prefill=prefill, rounds=rounds)
    summary = summarise(frozen)
    assert summary.speedup is None and summary.theory_speedup is None


def test_a_summary_becomes_json() -> None:
    value = json.loads(json.dumps(dataclasses.asdict(summarise(tiny_trace()))))
    assert value["speculative"]["acceptance_by_depth"][1] == {
        "depth": 2,
        "reached": 2,
        "passed": 1,
        "rate": 0.5,
    }


def test_the_root_is_the_last_token_before_the_round() -> None:
    trace = random_trace(2, rounds=5)
    assert trace.prefill is not None
    roots = root_ids(trace)
    assert roots[0] == trace.prefill.extra.token_id
    assert roots[1:] == tuple(each.emitted_ids[-1] for each in trace.rounds[:-1])


@given(st.integers(0, 10_000), st.sampled_from([(), (2, 2), (3,)]), st.booleans())
def test_tokens_acceptance_and_levels_agree(
    seed: int, branching: tuple[int, ...], has_distributions: bool
) -> None:
    trace = random_trace(
        seed, rounds=6, branching=branching, has_distributions=has_distributions, cut=seed % 2 == 0
    )
    summary = summarise(trace)
    assert summary.speculative.tokens == len(trace.emitted_ids)
    accepted = sum(len(each.accepted) for each in trace.rounds)
    assert accepted == sum(each.passed for each in summary.speculative.acceptance_by_depth)
    rate, utilization = summary.speculative.acceptance_rate, summary.speculative.draft_utilization
    if rate is not None and utilization is not None:
        assert 0 <= utilization <= rate <= 1


def test_the_order_of_the_lanes_does_not_change_the_numbers() -> None:
    trace = random_trace(4, rounds=12, temperature=0.0)
    meter, plain = RunMeter(trace), trace.lane(BASELINE)
    assert trace.prefill is not None and plain.prefill is not None
    meter.add(SPECULATIVE, trace.prefill)
    rounds, steps = list(trace.rounds), list(plain.steps)
    meter.add(SPECULATIVE, rounds.pop(0))
    meter.add(BASELINE, plain.prefill)
    while rounds or steps:
        if steps:
            meter.add(BASELINE, steps.pop(0))
        if rounds and len(steps) % 3 == 0:
            meter.add(SPECULATIVE, rounds.pop(0))
    assert meter.summary() == summarise(trace)
    assert meter.points == speedup_points(trace)


def test_asking_a_long_run_takes_less_than_a_millisecond() -> None:
    each, meter = chain(5, 3, 0.01, 0.02, 0.001), RunMeter(tiny_trace())
    for index in range(2000):
        meter.add(SPECULATIVE, each)
        meter.add(BASELINE, TokenStep(index, index, 0.5, 0.1, 0.01))
    seconds = []
    for _ in range(20):
        started = time.thread_time()
        meter.add(SPECULATIVE, each)
        meter.summary()
        seconds.append(time.thread_time() - started)
    assert min(seconds) < 0.001


def test_the_drafters_reading_of_the_prompt_is_a_cost_of_its_own() -> None:
    """It takes its time in the lane's clock, and neither c nor theory knows it."""
    trace = tiny_trace()
    first, *others = trace.rounds
    reading = dataclasses.replace(first, draft_prefill_seconds=2.0)
    read, plain = summarise(changed(trace, rounds=(reading, *others))), summarise(trace)
    assert read.speculative.draft_prefill_seconds == 2.0
    assert read.speculative.seconds == pytest.approx(plain.speculative.seconds + 2.0)
    assert read.speculative.draft_seconds == plain.speculative.draft_seconds
    assert (read.cost_ratio, read.theory_band) == (plain.cost_ratio, plain.theory_band)
