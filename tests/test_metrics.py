"""A run's numbers equal values worked out by hand on a small trace, and agree on random traces."""

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
from specviz.records import BASELINE, SPECULATIVE, FinishReason, ReadingLimit, TokenStep
from tests.random_rounds import random_round
from tests.random_traces import changed, random_trace
from tests.tiny_trace import chain, tiny_trace


def test_acceptance_rate_is_levels_passed_over_levels_reached() -> None:
    # Round 0 examined 2 levels of its tree and accepted 1 of them. Round 1 examined and accepted 3.
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


def test_the_baseline_s_share_of_the_memory_limit_uses_its_mean_step() -> None:
    # Reading 2 GB at 25 GB/s takes 0.08 s; the baseline's mean step takes 0.1 s.
    limit = ReadingLimit(bytes_per_second=25e9, step_bytes=2_000_000_000)
    trace = dataclasses.replace(tiny_trace(), reading=limit)
    assert summarise(trace).baseline.reading_share == pytest.approx(0.8)
    # A trace that has not started has no baseline step.
    assert summarise(trace.unstarted).baseline.reading_share is None
    # The trace has no measured memory bandwidth.
    assert summarise(tiny_trace()).baseline.reading_share is None


def test_theory_takes_its_costs_from_the_rounds() -> None:
    # The cost c of a draft level: 0.06 s for 6 levels are 0.01 s each, a tenth of a baseline step.
    # The additional cost v of verification: (0.22 + 0.02) s for 2 rounds are 0.12 s each, a fifth
    # more than a baseline step. Tokens per round: T(0.8, 3) = 1 + 0.8 + 0.64 + 0.512 = 2.952.
    # Speedup: 2.952 / (1 + 3 * 0.1 + 0.2) = 1.968.
    summary = summarise(tiny_trace())
    assert summary.cost_ratio == pytest.approx(0.1)
    assert summary.verify_overhead == pytest.approx(0.2)
    assert summary.theory_speedup == pytest.approx(1.968)
    band = summary.theory_band
    assert band is not None and band.low < band.expected < band.high


def test_the_speedup_at_a_moment_is_the_ratio_of_both_lanes_tokens_per_second() -> None:
    """The baseline has a token every 0.1 s, the other lane 1, 3 and 7 at 0.1, 0.24 and 0.4 s."""
    points = speedup_points(tiny_trace())
    assert [each.seconds for each in points] == pytest.approx(
        [0.1, 0.2, 0.24, 0.3, 0.4, 0.5, 0.6, 0.7]
    )
    assert [each.tokens for each in points] == [1, 1, 3, 3, 7, 7, 7, 7]
    rates = [10, 10, 12.5, 12.5, 17.5, 17.5, 17.5, 17.5]
    assert [each.speedup for each in points] == pytest.approx([each / 10 for each in rates])
    assert [each.limit for each in points[2:]] == pytest.approx([2.0] * 2 + [3.0] * 4, rel=0.2)


@pytest.mark.parametrize("steps", [0, 1, 3, 5, 6])
@pytest.mark.parametrize("slow", [0.1, 0.9])
def test_the_speedup_equals_the_ratio_of_the_shown_rates_wherever_the_run_stops(
    steps: int, slow: float
) -> None:
    """The two are equal in a live race, for texts of different length and for uneven steps."""
    trace = tiny_trace()
    plain = trace.lane(BASELINE).steps[:steps]
    plain = (*plain[:-1], *(dataclasses.replace(last, seconds=slow) for last in plain[-1:]))
    points = speedup_points(made := changed(trace, BASELINE, steps=plain))
    summary = summarise(made)
    rates = [each.tokens_per_second or 0 for each in (summary.speculative, summary.baseline)]
    assert summary.speedup == pytest.approx(rates[0] / rates[1])
    assert points[-1].speedup == summary.speedup
    assert summary.speedup_tokens == min(1 + steps, 7)


@pytest.mark.parametrize("name", ["draft-model.code", "draft-tree.story", "eagle.chat.smollm2"])
def test_during_a_recorded_race_the_summary_always_equals_the_end_of_the_curve(
    name: str,
) -> None:
    trace = golden_trace(name)
    meter, ends = RunMeter(trace), []
    for each in race({lane.name: lane.events for lane in trace.lanes}):
        meter.add(each.lane, each.event)
        summary, (*_, last) = meter.summary(), (None, *meter.points)
        ends.append(summary.speedup)
        assert ends[-1] == (last.speedup if last else None)
        if last:
            rates = [x.tokens_per_second or 0 for x in (summary.speculative, summary.baseline)]
            assert last.speedup == pytest.approx(rates[0] / rates[1])
    assert len(set(ends)) > 5


def test_equal_texts_are_identical_and_the_summary_counts_the_compared_tokens() -> None:
    summary = summarise(tiny_trace())
    assert summary.identical is True and summary.compared == 7
    assert summary.first_divergence is None


def test_a_divergence_has_its_index_and_the_baseline_s_margin_there() -> None:
    trace = tiny_trace()
    steps = list(trace.lane(BASELINE).steps)
    steps[3] = TokenStep(3, 6, 0.5, 3e-6, 0.1)
    summary = summarise(changed(trace, BASELINE, steps=tuple(steps)))
    # index 0 is the token of the prefill
    assert summary.first_divergence == Divergence(index=4, margin=3e-6)
    assert summary.identical is False and summary.compared == 5


def test_a_token_that_a_finished_lane_lacks_counts_as_a_divergence() -> None:
    trace = tiny_trace()
    fewer_rounds = changed(trace, rounds=trace.rounds[:1])
    summary = summarise(fewer_rounds)
    assert summary.first_divergence == Divergence(index=3, margin=0.25)
    assert summary.identical is False
    fewer_steps = changed(trace, BASELINE, steps=trace.lane(BASELINE).steps[:2])
    assert first_divergence(fewer_steps) == Divergence(index=3, margin=None)


@pytest.mark.parametrize("ending", [None, FinishReason.STOPPED])
def test_unfinished_lanes_are_compared_on_their_common_tokens_only(
    ending: FinishReason | None,
) -> None:
    fewer = changed(tiny_trace(), rounds=tiny_trace().rounds[:1])
    for lane in (BASELINE, SPECULATIVE):
        summary = summarise(changed(fewer, lane, finish=ending))
        assert summary.identical is True and summary.compared == 3


def test_a_lane_that_did_not_run_differs_from_nothing() -> None:
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


def test_a_round_cut_by_the_length_limit_counts_its_levels_up_to_the_cut() -> None:
    full = chain(4, 2, 0, 0, 0)
    assert levels(full) == Levels(drafted=4, reached=3, passed=2)
    assert levels(dataclasses.replace(full, extra=None)) == Levels(drafted=4, reached=2, passed=2)


def test_a_drafter_that_proposed_nothing_reaches_no_level() -> None:
    empty = random_round(0, widths=())
    totals = RoundTotals([empty])
    assert levels(empty) == Levels(0, 0, 0)
    assert totals.acceptance_rate is None and totals.draft_utilization is None
    assert totals.block_efficiency == 1 and totals.acceptance_by_depth == ()


def test_theory_expects_a_slowdown_from_rounds_that_draft_nothing() -> None:
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


def test_a_single_lane_has_its_own_numbers_but_no_speedup() -> None:
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


def test_a_summary_can_be_written_as_json() -> None:
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


def test_the_summary_of_a_long_run_takes_less_than_a_millisecond() -> None:
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


def test_the_drafter_s_prefill_is_a_separate_cost() -> None:
    """The time of the prefill counts in the lane's clock, but not in the cost ratio c or theory."""
    trace = tiny_trace()
    first, *others = trace.rounds
    reading = dataclasses.replace(first, draft_prefill_seconds=2.0)
    read, plain = summarise(changed(trace, rounds=(reading, *others))), summarise(trace)
    assert read.speculative.draft_prefill_seconds == 2.0
    assert read.speculative.seconds == pytest.approx(plain.speculative.seconds + 2.0)
    assert read.speculative.draft_seconds == plain.speculative.draft_seconds
    assert (read.cost_ratio, read.theory_band) == (plain.cost_ratio, plain.theory_band)


def test_a_speedup_above_the_tokens_per_forward_marks_the_run_as_disturbed() -> None:
    """6 tokens in 2 rounds are 3 per forward; a slow baseline makes the speedup seem 3.4."""
    calm = tiny_trace()
    slow = tuple(dataclasses.replace(step, seconds=0.21) for step in calm.lane(BASELINE).steps)
    summary = summarise(calm)
    assert summary.speedup_limit == pytest.approx(3.0) and not summary.is_disturbed
    disturbed = summarise(changed(calm, BASELINE, steps=slow))
    assert disturbed.speedup == pytest.approx(3.4) and disturbed.is_disturbed


def test_uncertain_costs_make_theory_uncertain() -> None:
    """Uneven steps with the same mean keep the expected speedup and widen its interval."""
    even = tiny_trace()
    steps = even.lane(BASELINE).steps
    uneven = tuple(
        dataclasses.replace(step, seconds=0.1 + 0.08 * (-1) ** index)
        for index, step in enumerate(steps)
    )
    calm, noisy = (
        summarise(trace).theory_band for trace in (even, changed(even, BASELINE, steps=uneven))
    )
    assert calm is not None and noisy is not None and len(steps) % 2 == 0
    assert noisy.expected == pytest.approx(calm.expected)
    assert noisy.high / noisy.low > 1.2 * calm.high / calm.low
