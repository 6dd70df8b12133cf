"""What an estimate makes of rounds and runs, number by number."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from specviz.advice import advise
from specviz.estimate import estimate, survival_of
from specviz.probe import Candidate, RoundSeen, SpeculativeRun
from tests.exact_probe import STEP, baseline, place, probe, run

HALF = Fraction(1, 2)


def test_a_depth_counts_only_runs_that_drafted_so_deep() -> None:
    survival = survival_of([run("x", HALF, 2, 0.1, 0.0), run("x", HALF, 6, 0.1, 0.0)], 6)
    assert survival == pytest.approx([0.5**depth for depth in range(1, 7)], abs=0)


def test_the_acceptance_rate_is_the_levels_that_passed_of_those_that_were_reached() -> None:
    found = estimate(probe(run("x", HALF, 4, 0.1, 0.0)), Candidate("x", 4))
    assert found.acceptance_rate == pytest.approx(0.5)
    assert found.tokens_per_round == pytest.approx(1.9375)


# --- runs that tell little


def ended(of: SpeculativeRun, *rounds: RoundSeen) -> SpeculativeRun:
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
    advice = advise(probe(at_once, at=place(max_new_tokens=1)))
    assert advice is not None and not advice.speculate
    assert advice.best.round_cost == advice.best.tokens_per_round == 1
    assert "acceptance" not in {each.name for each in advice.reasons}  # no guess was examined


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
