"""The advisor's estimates (acceptance, costs, speedup, interval) follow from rounds and runs."""

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


def test_acceptance_at_a_depth_counts_only_runs_that_drafted_to_that_depth() -> None:
    survival = survival_of([run("x", HALF, 2, 0.1, 0.0), run("x", HALF, 6, 0.1, 0.0)], 6)
    assert survival == pytest.approx([0.5**depth for depth in range(1, 7)], abs=0)


def test_the_acceptance_rate_is_accepted_levels_over_reached_levels() -> None:
    found = estimate(probe(run("x", HALF, 4, 0.1, 0.0)), Candidate("x", 4))
    assert found.acceptance_rate == pytest.approx(0.5)
    assert found.tokens_per_round == pytest.approx(1.9375)


def test_depths_that_no_run_reached_take_the_last_known_rates() -> None:
    survival = survival_of([run("x", HALF, 4, 0.1, 0.0)], 7)
    assert survival == pytest.approx([0.5**depth for depth in range(1, 8)])


def ended(of: CandidateRun, *rounds: RoundSeen) -> CandidateRun:
    return replace(of, rounds=rounds, is_race=True)


def test_the_shortened_last_rounds_of_requests_do_not_make_a_round_cheaper() -> None:
    whole = run("x", HALF, 4, 0.2, 0.5)
    (seen,) = whole.rounds
    last = RoundSeen((), 1, 1, 0.2 * STEP, STEP, 0.0)
    mixed = replace(whole, rounds=(seen, last, last))
    for runs in ((mixed,), (whole, ended(whole, last)), (whole, ended(whole))):
        found = estimate(probe(*runs), Candidate("x", 4))
        assert (found.draft_cost, found.verify_cost) == pytest.approx((0.8, 1.5))
    # If the text's end has shortened every round of a draft length, the estimate uses the shortened
    # rounds.
    found = estimate(probe(ended(whole, last)), Candidate("x", 4))
    assert (found.draft_cost, found.verify_cost) == pytest.approx((0.2, 1.0))


def test_a_draft_length_that_was_always_cut_takes_its_rates_from_other_lengths() -> None:
    last = RoundSeen((), 1, 1, 0.2 * STEP, STEP, 0.0)
    runs = [run("x", HALF, 4, 0.2, 0.0), ended(run("x", HALF, 6, 0.2, 0.0), last)]
    assert survival_of(runs, 6) == pytest.approx([0.5**depth for depth in range(1, 7)])


def test_a_request_of_one_token_is_as_fast_with_a_method_as_without() -> None:
    at_once = ended(run("x", HALF, 4, 0.2, 0.0))
    advice = advise(probe(at_once, at=workload(max_new_tokens=1)))
    assert advice is not None and not advice.speculate
    assert advice.best.round_cost == advice.best.tokens_per_round == 1
    # The method drafted nothing, so the advisor does not give acceptance as a reason.
    assert "acceptance" not in {each.name for each in advice.reasons}


def test_one_lucky_run_cannot_make_a_request_faster_than_its_prefill_allows() -> None:
    lucky = replace(run("x", HALF, 4, 0.2, 0.0), tokens=1000, is_race=True)
    for tokens, limit in ((1, 1.0), (3, 3.0)):
        found = probe(lucky, at=workload(max_new_tokens=tokens))
        told = estimate(found, Candidate("x", 4))
        assert told.speedup <= limit and told.high <= limit


def test_a_baseline_without_steps_takes_the_step_time_of_the_other_blocks() -> None:
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
    # The prefill writes the first of the 65 tokens, so only the other 64 tokens need rounds.
    later = 64 / 65 * waiting(16, 64, survival) + 1 / 65 * one.speedup
    assert one.speedup / many.speedup == pytest.approx(later, rel=0.02)


def test_a_shorter_draft_saves_the_verification_time_that_forward_times_predict() -> None:
    found = probe(run("x", HALF, 8, 0.1, 1.0), at=workload(batch_size=8))
    steep = ForwardCurve((1, 9), (STEP, 2 * STEP))
    flat, cheaper = (
        estimate(replace(found, batch_curve=curve), Candidate("x", 2)).verify_cost
        for curve in (ForwardCurve((1, 9), (STEP, STEP)), steep)
    )
    # The probe verified K = 8 drafted tokens. K = 2 verifies only 2 of them, which is a quarter of
    # the additional verification time.
    assert flat == pytest.approx(2.0) and cheaper == pytest.approx(1.25)


def test_the_drafter_s_prefill_counts_once_for_any_output_length() -> None:
    # A round writes 2 tokens in the time of 1.5 plain steps
    plain = run("x", Fraction(1), 1, 0.5, 0.0)
    reading = replace(plain, draft_prefill_seconds=6 * STEP)
    for rounds in (1, 10, 100):
        at = workload(max_new_tokens=1 + 2 * rounds)
        found = estimate(probe(reading, at=at), Candidate("x", 1))
        assert found.speedup == pytest.approx((1 + 2 * rounds) / (1 + 6 + 1.5 * rounds))
        assert (found.draft_prefill, found.draft_cost) == pytest.approx((6, 0.5))


def test_rounds_without_a_draft_are_averaged_separately_from_the_others() -> None:
    """Six of ten rounds find no draft and take the time of 1 plain step.

    The other four draft 8 tokens and take the time of 2.5 plain steps.
    """
    empty = RoundSeen((0,), 0, 0, 0.0, STEP, 0.0)
    found = RoundSeen((4,), 8, 8, 0.1 * STEP, 2.4 * STEP, 0.0)
    whole = replace(run("x", HALF, 8, 0.0, 0.0), rounds=(empty,) * 6 + (found,) * 4)
    told = estimate(probe(whole), Candidate("x", 8))
    assert told.round_cost == pytest.approx(0.6 * 1 + 0.4 * 2.5)
    assert told.tokens_per_round == pytest.approx(0.6 * 1 + 0.4 * 5)
    assert told.speedup == pytest.approx(2.6 / 1.6, rel=0.01)


def test_rounds_that_must_wait_for_their_draft_count_with_their_share() -> None:
    """In six of ten rounds the draft is ready at once; in the other four, the round waits for it.

    The four rounds spend 0.8 of the time of a plain step on drafting.
    """
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
    """Return the logarithm of the high end of the speedup's interval divided by its low end.

    A wider interval gives a larger number.
    """
    plain = tuple(baseline(block, step=step) for block, step in enumerate(steps))
    found = estimate(replace(probe(*runs), baselines=plain), Candidate("x", K))
    return math.log(found.high / found.low)


def test_more_rounds_make_the_interval_narrower_and_noise_makes_it_wider() -> None:
    short, long = run("x", HALF, 2, 0.1, 0.0), run("x", HALF, 8, 0.1, 0.0)
    assert 0 < doubt(short, long, K=2) < doubt(short, K=2)
    noisy = doubt(short, long, K=2, steps=(STEP, 1.3 * STEP, 0.9 * STEP))
    assert noisy > doubt(short, long, K=2, steps=(STEP, STEP, STEP))


def test_two_rounds_with_the_same_tokens_leave_a_wide_interval() -> None:
    first, second = (run("x", Fraction(1), 3, 0.1, 0.0, block=block) for block in range(2))
    assert doubt(first, second, K=3, steps=(STEP, STEP)) > 0.5
    # 100 runs on only two different prompts give little evidence
    assert doubt(*[first, second] * 50, K=3, steps=(STEP, STEP)) > 0.5
    # A run in which no token was accepted does not prove that none ever will be.
    assert doubt(run("x", Fraction(0), 3, 0.1, 0.0), K=3) > 0.5
    many = [run("x", Fraction(1), 3, 0.1, 0.0, block=block) for block in range(100)]
    assert doubt(*many, K=3, steps=(STEP,) * 100) < 0.1


def test_repeating_a_prompt_gives_no_new_information() -> None:
    once = run("x", HALF, 6, 0.1, 0.0)
    other = replace(once, prompts=("another",))
    assert doubt(once, once, K=6) == pytest.approx(doubt(once, K=6), rel=0.05)
    assert doubt(once, other, K=6) < 0.9 * doubt(once, K=6)


def test_shorter_drafts_say_nothing_about_the_spread_of_longer_ones() -> None:
    short, long = run("x", Fraction(1), 2, 0.1, 0.0), run("x", HALF, 6, 0.1, 0.0)
    assert doubt(short, long, K=6) == pytest.approx(doubt(long, K=6))


def test_levels_deeper_than_the_draft_length_do_not_widen_its_interval() -> None:
    near, far = (
        replace(of, rounds=(replace(of.rounds[0], accepted=(0, passed) * 20),))
        for of in (run("x", HALF, 8, 0.1, 0.0),)
        for passed in (1, 8)
    )
    assert doubt(near, K=1) == pytest.approx(doubt(far, K=1))


def test_the_noise_is_the_spread_of_the_step_time_between_neighbouring_blocks() -> None:
    steps = (STEP, STEP * math.exp(0.1), STEP * math.exp(0.3))
    found = replace(probe(), baselines=tuple(baseline(b, step=s) for b, s in enumerate(steps)))
    assert step_noise(found) == pytest.approx(math.sqrt((0.1**2 + 0.2**2) / 2 / 2))
    assert step_noise(replace(found, baselines=(baseline(0), baseline(1)))) == 0
    ended = replace(baseline(1, step=5 * STEP), steps=0)
    assert step_noise(replace(found, baselines=(baseline(0), ended, baseline(2)))) == 0
    assert step_noise(probe()) == UNKNOWN_NOISE  # one block of measurements shows no spread


@pytest.mark.parametrize("length", [1, 3])
def test_disturbed_costs_cannot_make_a_round_cheaper_than_a_plain_step(length: int) -> None:
    """A round that is cheaper than a plain step would give a speedup above the tokens per round.

    A disturbed measurement once made theory promise a speedup of 2.4 from 2 tokens per round.
    """
    found = estimate(probe(run("x", Fraction(1), 3, 0.1, -0.6)), Candidate("x", length))
    assert found.round_cost >= 1
    assert found.theory <= found.speedup <= found.tokens_per_round
