"""What an estimate makes of rounds and runs, number by number."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from specviz.advisor.advice import advise
from specviz.advisor.estimate import UNKNOWN_NOISE, estimate, step_noise, survival_of
from specviz.advisor.probe import Candidate, CandidateRun, RoundSeen
from specviz.forward_curve import ForwardCurve
from specviz.theory import waiting
from tests.exact_probe import STEP, baseline, probe, run, workload

HALF = Fraction(1, 2)


def test_a_depth_counts_only_runs_that_drafted_so_deep() -> None:
    survival = survival_of([run("x", HALF, 2, 0.1, 0.0), run("x", HALF, 6, 0.1, 0.0)], 6)
    assert survival == pytest.approx([0.5**depth for depth in range(1, 7)], abs=0)


def test_the_acceptance_rate_is_the_levels_that_passed_of_those_that_were_reached() -> None:
    found = estimate(probe(run("x", HALF, 4, 0.1, 0.0)), Candidate("x", 4))
    assert found.acceptance_rate == pytest.approx(0.5)
    assert found.tokens_per_round == pytest.approx(1.9375)


def test_depths_that_no_run_reached_go_on_with_the_last_rates() -> None:
    survival = survival_of([run("x", HALF, 4, 0.1, 0.0)], 7)
    assert survival == pytest.approx([0.5**depth for depth in range(1, 8)])


# --- runs that tell little


def ended(of: CandidateRun, *rounds: RoundSeen) -> CandidateRun:
    return replace(of, rounds=rounds, is_race=True)


def test_the_shortened_rounds_at_an_end_do_not_make_a_round_cheaper() -> None:
    whole = run("x", HALF, 4, 0.2, 0.5)
    (seen,) = whole.rounds
    last = RoundSeen((), 1, 1, 0.2 * STEP, STEP, 0.0)
    mixed = replace(whole, rounds=(seen, last, last))
    for runs in ((mixed,), (whole, ended(whole, last)), (whole, ended(whole))):
        found = estimate(probe(*runs), Candidate("x", 4))
        assert (found.draft_cost, found.verify_cost) == pytest.approx((0.8, 1.5))
    found = estimate(probe(ended(whole, last)), Candidate("x", 4))  # nothing else is known
    assert (found.draft_cost, found.verify_cost) == pytest.approx((0.2, 1.0))


def test_a_length_that_never_had_room_leaves_the_depths_to_the_others() -> None:
    last = RoundSeen((), 1, 1, 0.2 * STEP, STEP, 0.0)
    runs = [run("x", HALF, 4, 0.2, 0.0), ended(run("x", HALF, 6, 0.2, 0.0), last)]
    assert survival_of(runs, 6) == pytest.approx([0.5**depth for depth in range(1, 7)])


def test_requests_that_end_with_their_first_token_are_as_fast_as_plain_ones() -> None:
    at_once = ended(run("x", HALF, 4, 0.2, 0.0))
    advice = advise(probe(at_once, at=workload(max_new_tokens=1)))
    assert advice is not None and not advice.speculate
    assert advice.best.round_cost == advice.best.tokens_per_round == 1
    assert "acceptance" not in {each.name for each in advice.reasons}  # no guess was examined


def test_no_lucky_pass_makes_a_request_faster_than_its_prefill() -> None:
    lucky = replace(run("x", HALF, 4, 0.2, 0.0), tokens=1000, is_race=True)
    for tokens, limit in ((1, 1.0), (3, 3.0)):
        found = probe(lucky, at=workload(max_new_tokens=tokens))
        told = estimate(found, Candidate("x", 4))
        assert told.speedup <= limit and told.high <= limit


def test_a_baseline_without_steps_has_those_of_the_other_blocks() -> None:
    whole = run("x", HALF, 4, 0.2, 0.0)
    short = replace(baseline(1, first=9 * STEP, step=9 * STEP), steps=0)
    usual, found = (
        replace(probe(whole, replace(whole, block=1)), baselines=(baseline(0), each))
        for each in (baseline(1), short)
    )
    costs = (estimate(each, Candidate("x", 4)).round_cost for each in (usual, found))
    assert next(costs) == next(costs)
    assert found.step_of(1) == STEP
    assert replace(found, baselines=(short,)).step_of(1) == 9 * STEP


def test_a_batch_waits_for_its_longest_row() -> None:
    found = run("x", HALF, 5, 0.1, 0.0)
    one, many = (
        estimate(probe(found, at=workload(batch_size=B, max_new_tokens=65)), Candidate("x", 5))
        for B in (1, 16)
    )
    survival = [1 / 2**depth for depth in range(1, 6)]
    later = 64 / 65 * waiting(16, 64, survival) + 1 / 65 * one.speedup  # the first is no round
    assert one.speedup / many.speedup == pytest.approx(later, rel=0.02)


def test_of_one_probed_length_shorter_ones_verify_as_much_faster_as_the_forwards_are() -> None:
    found = probe(run("x", HALF, 8, 0.1, 1.0), at=workload(batch_size=8))
    steep = ForwardCurve((1, 9), (STEP, 2 * STEP))
    flat, cheaper = (
        estimate(replace(found, batch_curve=curve), Candidate("x", 2)).verify_cost
        for curve in (ForwardCurve((1, 9), (STEP, STEP)), steep)
    )
    assert flat == pytest.approx(2.0) and cheaper == pytest.approx(1.25)  # 2 tokens of 8 more


def test_the_drafters_reading_of_the_prompt_counts_once_however_long_the_output_is() -> None:
    plain = run("x", Fraction(1), 1, 0.5, 0.0)  # 2 tokens in 1.5 steps
    reading = replace(plain, draft_prefill_seconds=6 * STEP)
    for rounds in (1, 10, 100):
        at = workload(max_new_tokens=1 + 2 * rounds)
        found = estimate(probe(reading, at=at), Candidate("x", 1))
        assert found.speedup == pytest.approx((1 + 2 * rounds) / (1 + 6 + 1.5 * rounds))
        assert (found.draft_prefill, found.draft_cost) == pytest.approx((6, 0.5))


def test_rounds_without_a_draft_cost_what_they_cost_and_do_not_stand_for_the_others() -> None:
    """6 of 10 lookups find nothing and take a step; those that find 8 tokens take 2.5 of them."""
    empty = RoundSeen((0,), 0, 0, 0.0, STEP, 0.0)
    found = RoundSeen((4,), 8, 8, 0.1 * STEP, 2.4 * STEP, 0.0)
    whole = replace(run("x", HALF, 8, 0.0, 0.0), rounds=(empty,) * 6 + (found,) * 4)
    told = estimate(probe(whole), Candidate("x", 8))
    assert told.round_cost == pytest.approx(0.6 * 1 + 0.4 * 2.5)
    assert told.tokens_per_round == pytest.approx(0.6 * 1 + 0.4 * 5)
    assert told.speedup == pytest.approx(2.6 / 1.6, rel=0.01)


# --- the interval


def test_of_rounds_that_mostly_find_their_draft_ready_the_others_count_as_well() -> None:
    """Drafting ahead: of ten rounds six have nothing to draft, four draft for 0.8 of a step."""
    whole = run("ahead", HALF, 4, 0.2, 0.0)
    ready = RoundSeen((1,), 4, 4, 0.0, STEP, 0.0)
    missed = RoundSeen((1,), 4, 4, 0.8 * STEP, STEP, 0.0)
    burst = RoundSeen((1,), 4, 4, 0.0, 50 * STEP, 0.0)
    found = estimate(probe(replace(whole, rounds=(ready,) * 6 + (missed,) * 4)), whole.candidate)
    assert (found.draft_cost, found.verify_cost) == pytest.approx((0.32, 1.0))
    loud = replace(whole, rounds=(ready,) * 6 + (missed,) * 3 + (burst,))
    found = estimate(probe(loud), whole.candidate)
    assert (found.draft_cost, found.verify_cost) == pytest.approx((0.24, 0.9 + 0.2))


def doubt(*runs: CandidateRun, K: int, steps: tuple[float, ...] = (STEP,)) -> float:
    """The relative width."""
    plain = tuple(baseline(block, step=step) for block, step in enumerate(steps))
    found = estimate(replace(probe(*runs), baselines=plain), Candidate("x", K))
    return math.log(found.high / found.low)


def test_more_rounds_make_the_interval_narrower_and_noise_makes_it_wider() -> None:
    short, long = run("x", HALF, 2, 0.1, 0.0), run("x", HALF, 8, 0.1, 0.0)
    assert 0 < doubt(short, long, K=2) < doubt(short, K=2)
    noisy = doubt(short, long, K=2, steps=(STEP, 1.3 * STEP, 0.9 * STEP))
    assert noisy > doubt(short, long, K=2, steps=(STEP, STEP, STEP))


def test_two_rounds_that_write_the_same_leave_much_doubt() -> None:
    first, second = (run("x", Fraction(1), 3, 0.1, 0.0, block=block) for block in range(2))
    assert doubt(first, second, K=3, steps=(STEP, STEP)) > 0.5
    assert doubt(*[first, second] * 50, K=3, steps=(STEP, STEP)) > 0.5  # still two prompts
    assert doubt(run("x", Fraction(0), 3, 0.1, 0.0), K=3) > 0.5  # nor is it sure that none pass
    many = [run("x", Fraction(1), 3, 0.1, 0.0, block=block) for block in range(100)]
    assert doubt(*many, K=3, steps=(STEP,) * 100) < 0.1


def test_the_same_prompt_again_tells_nothing_new() -> None:
    once = run("x", HALF, 6, 0.1, 0.0)
    other = replace(once, prompts=("another",))
    assert doubt(once, once, K=6) == pytest.approx(doubt(once, K=6), rel=0.05)
    assert doubt(once, other, K=6) < 0.9 * doubt(once, K=6)


def test_rounds_that_drafted_less_do_not_tell_how_a_longer_one_varies() -> None:
    short, long = run("x", Fraction(1), 2, 0.1, 0.0), run("x", HALF, 6, 0.1, 0.0)
    assert doubt(short, long, K=6) == pytest.approx(doubt(long, K=6))


def test_levels_beyond_the_draft_length_do_not_widen_its_interval() -> None:
    near, far = (
        replace(of, rounds=(replace(of.rounds[0], accepted=(0, passed) * 20),))
        for of in (run("x", HALF, 8, 0.1, 0.0),)
        for passed in (1, 8)
    )
    assert doubt(near, K=1) == pytest.approx(doubt(far, K=1))


def test_the_noise_is_the_spread_of_the_step_between_neighbours() -> None:
    steps = (STEP, STEP * math.exp(0.1), STEP * math.exp(0.3))
    found = replace(probe(), baselines=tuple(baseline(b, step=s) for b, s in enumerate(steps)))
    assert step_noise(found) == pytest.approx(math.sqrt((0.1**2 + 0.2**2) / 2 / 2))
    assert step_noise(replace(found, baselines=(baseline(0), baseline(1)))) == 0
    ended = replace(baseline(1, step=5 * STEP), steps=0)
    assert step_noise(replace(found, baselines=(baseline(0), ended, baseline(2)))) == 0
    assert step_noise(probe()) == UNKNOWN_NOISE  # one block tells no spread
