"""From measurements that follow theory, the advisor chooses the setting that theory prefers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

from specviz.advisor.advice import (
    LENGTHS,
    MIN_GAIN,
    Advice,
    Untried,
    advise,
    challengers,
    contenders,
)
from specviz.advisor.estimate import estimate
from specviz.advisor.measured_before import MeasuredBefore, fastest_of_sweep
from specviz.advisor.probe import Candidate, CandidateRun, Probe, Refusal
from specviz.forward_curve import ForwardCurve
from specviz.theory import speedup
from tests.exact_probe import FLAT, STEP, baseline, probe, run, workload

HALF, TWO_THIRDS, FIFTH = Fraction(1, 2), Fraction(2, 3), Fraction(1, 5)


def of(found: Probe) -> Advice:
    advice = advise(found)
    assert advice is not None
    return advice


def names(advice: Advice) -> set[str]:
    return {each.name for each in advice.reasons}


@pytest.mark.parametrize("a", [Fraction(1, 4), HALF, TWO_THIRDS])
@pytest.mark.parametrize(("c", "v"), [(0.01, 0.0), (0.1, 0.1), (0.3, 0.2), (0.9, 0.5)])
def test_the_best_draft_length_is_the_one_that_theory_finds(
    a: Fraction, c: float, v: float
) -> None:
    """The verification cost v is linear in K, so measurements at two lengths determine it."""
    advice = of(probe(run("x", a, 2, c, 2 * v / 6), run("x", a, 6, c, v)))
    expected = {K: speedup(float(a), K, c, K * v / 6) for K in LENGTHS}
    best = max(expected, key=lambda K: expected[K])
    assert advice.best.candidate.draft_length == best
    assert advice.best.speedup == pytest.approx(expected[best], rel=0.01)
    assert advice.speculate == (expected[best] >= MIN_GAIN)
    for each in advice.ranking:
        assert each.speedup == pytest.approx(expected[each.candidate.draft_length], rel=0.01)


def test_without_trying_all_methods_the_advisor_does_not_reject_speculation() -> None:
    losing, winning = (probe(run("a", a, 2, c, 0.0)) for a, c in ((FIFTH, 0.5), (HALF, 0.01)))
    untried = Untried(("b", "c"), 1, 90)
    advice = advise(losing, untried=untried)
    assert advice and advice.verdict.startswith("Not decided: 1 of 3 methods were tried. The best")
    assert advice.verdict.endswith("90 seconds would be enough to try all methods.")
    before = MeasuredBefore("b", 5, 1.67)
    differs = advise(losing, untried=untried, before=before)
    assert differs and differs.verdict.startswith(
        "Two measurements disagree: your sweep gave 1.67x with b, K = 5, but here the best "
        "candidate, a"
    )
    agrees = advise(winning, untried=untried, before=before)
    assert agrees and agrees.verdict.startswith("Speculate with a")
    assert [each["method"] for each in advice.to_dict()["refusals"]] == ["b", "c"]
    found = advise(winning, untried=untried)
    assert found and found.verdict.startswith("Speculate with a")


def test_of_several_methods_the_best_by_theory_is_chosen() -> None:
    letters = {"cheap": (HALF, 0.02), "dear": (TWO_THIRDS, 0.5), "poor": (FIFTH, 0.01)}
    runs = [run(name, a, K, c, 0.0) for (name, (a, c)), K in product(letters.items(), (2, 6))]
    choices = {
        Candidate(name, K): speedup(float(a), K, c)
        for name, (a, c) in letters.items()
        for K in LENGTHS
    }
    advice = of(probe(*runs))
    assert advice.best.candidate == max(choices, key=lambda each: choices[each])
    order = [each.candidate for each in advice.ranking]
    gains = [choices[each] for each in order]
    assert gains == pytest.approx(sorted(gains, reverse=True), rel=0.01)


def test_if_every_method_loses_the_advice_says_so_and_by_how_much() -> None:
    advice = of(probe(run("a", FIFTH, 2, 0.5, 0.1), run("b", FIFTH, 2, 0.9, 0.0)))
    assert not advice.speculate
    assert advice.verdict.startswith("Do not speculate: the best candidate, a, K = 1, gives 0.")
    shown = advice.to_dict()
    assert shown["method"] is None and shown["speedup"] == 1.0
    assert advice.reasons[0].speaks_for is False


def test_with_one_probed_length_only_the_draft_cost_grows_with_k() -> None:
    found = probe(run("x", HALF, 4, 0.2, 0.5, host=0.25))
    shorter, longer = (estimate(found, Candidate("x", K)) for K in (1, 8))
    assert (shorter.draft_cost, longer.draft_cost) == pytest.approx((0.2, 1.6))
    assert (shorter.verify_cost, longer.verify_cost) == pytest.approx((1.5, 1.5))
    assert (shorter.host_cost, longer.host_cost) == pytest.approx((0.25, 0.25))


def test_without_probes_there_is_no_advice() -> None:
    assert advise(probe()) is None


def test_a_tree_with_too_many_nodes_is_not_offered() -> None:
    wide = run("tree", HALF, 6, 0.01, 0.0)
    wide = replace(wide, candidate=Candidate("tree", 6, (3, 2)))
    offered = {each.candidate for each in of(probe(wide)).ranking}
    assert Candidate("tree", 1, (3,)) in offered and Candidate("tree", 8, (3, 2)) in offered
    # length 12 would give 3 + 11 * 6 = 69 nodes, and at most 64 are allowed
    assert all(each.draft_length < 12 for each in offered)


def test_a_short_request_counts_its_prefill_and_its_last_round_exactly() -> None:
    """The prefill takes the time of 1 plain step.

    After it, a plain step adds 1 token, and a speculative round of one level adds 2.
    """
    slow = run("x", Fraction(1), 2, 0.5, 0.25)
    for tokens, rounds in ((2, 1.0), (3, 1.75)):
        found = estimate(probe(slow, at=workload(max_new_tokens=tokens)), Candidate("x", 2))
        assert found.speedup == pytest.approx(tokens / (1 + rounds))


def raced(found: CandidateRun, gain: float, block: int) -> CandidateRun:
    plain = baseline(block)
    seconds = plain.total_seconds / gain
    return replace(found, block=block, tokens=101, total_seconds=seconds, is_race=True)


def test_a_promising_method_that_found_no_time_to_race_is_named() -> None:
    slow, fast = run("slow", FIFTH, 5, 0.2, 0.0), run("fast", TWO_THIRDS, 5, 0.05, 0.0)
    found = probe(slow, fast, raced(slow, 0.8, 0))
    late = of(replace(found, finalists=(slow.candidate,)))
    assert not late.speculate and late.best.candidate == slow.candidate
    (reason,) = (each for each in late.reasons if each.name == "unraced")
    assert " with fast, K = " in reason.sentence and reason.value > MIN_GAIN
    assert reason.speaks_for
    # Without a race, the advisor's choice is the best setting by theory.
    assert "unraced" not in names(of(found))


def test_a_speedup_is_shown_with_the_measurements_that_it_is_the_median_of() -> None:
    slow = run("x", HALF, 1, 0.1, 0.0)
    sentences, verdicts = [], []
    for gains in ((1.86,), (1.2, 1.9, 1.6)):
        passes = [raced(slow, gain, block) for block, gain in enumerate(gains)]
        plain = tuple(baseline(block) for block in range(len(gains)))
        advice = advise(replace(probe(slow, *passes), baselines=plain), (1,))
        assert advice is not None
        sentences += [each.sentence for each in advice.reasons if each.name == "measured"]
        verdicts.append(advice.verdict)
    assert sentences == [
        "x raced in one pass, with a speedup of 1.86x. Theory predicts 1.36x from acceptance and "
        "costs. The estimate, 1.61x, is halfway between.",
        "x raced in 3 passes, with speedups of 1.20x, 1.90x and 1.60x. Theory predicts 1.36x from "
        "acceptance and costs. The estimate, 1.48x, is the median of these numbers.",
    ]
    assert "speedup is 1.61x" in verdicts[0] and "speedup is 1.48x" in verdicts[1]
    assert "measured" not in names(of(probe(slow)))  # without a race, no measured speedup is listed


def test_measurements_count_more_than_theory() -> None:
    first, second = run("good-on-paper", TWO_THIRDS, 5, 0.01, 0.0), run("good", HALF, 5, 0.1, 0.0)
    passes = [
        raced(each, gain, block)
        for block in range(3)
        for each, gain in ((first, 1.1), (second, 1.4))
    ]
    found = replace(probe(first, second, *passes), baselines=tuple(baseline(b) for b in range(3)))
    advice = of(found)
    assert advice.best.candidate == Candidate("good", 5) and advice.best.races == 3
    assert advice.best.speedup == pytest.approx(1.4)


def test_theory_counts_as_one_more_measurement() -> None:
    found = run("x", HALF, 5, 0.1, 0.0)
    expected = estimate(probe(found), Candidate("x", 5)).speedup
    once = estimate(probe(found, raced(found, 1.2, 0)), Candidate("x", 5)).speedup
    assert once == pytest.approx((expected + 1.2) / 2, rel=1e-3)


def test_a_candidate_that_left_the_race_does_not_win_it_by_one_lucky_run() -> None:
    first, second = run("lucky", HALF, 5, 0.1, 0.0), run("steady", HALF, 5, 0.1, 0.0)
    passes = [raced(second, gain, block) for block, gain in enumerate((1.2, 1.3, 1.5))]
    found = replace(
        probe(raced(first, 1.9, 0), *passes),
        baselines=tuple(baseline(b) for b in range(3)),
        finalists=(second.candidate,),
    )
    assert of(found).best.candidate == Candidate("steady", 5)
    # The races measured speedups of 1.2, 1.3 and 1.5. The advisor shows the median of these three
    # and of the speedup that theory predicts.
    assert 1.3 <= of(found).best.speedup <= 1.5


def raced_eight_times(gains: dict[str, float]) -> tuple[list[CandidateRun], Probe]:
    runs = [run(each, HALF, 5, 0.02, 0.0) for each in gains]
    races = [
        raced(each, gains[each.candidate.method], block) for block in range(8) for each in runs
    ]
    return runs, replace(probe(*runs, *races), baselines=tuple(baseline(b) for b in range(8)))


def test_a_candidate_leaves_the_race_if_its_interval_ends_below_the_best() -> None:
    gains = {"best": 2.0, "near": 1.9, "may-be": 1.85, "slow": 1.0}
    runs, found = raced_eight_times(gains)
    racing = [each.candidate for each in runs]
    assert {each.method for each in contenders(found, racing)} == {"best", "near", "may-be"}
    # The race needs the best candidate and at least one other, so a slow candidate stays.
    assert len(contenders(found, (racing[0], racing[3]))) == 2


def test_a_candidate_leaves_even_if_its_interval_overlaps_with_that_of_the_best() -> None:
    gains = {"best": 2.0, "near": 1.9, "out": 1.53}
    runs, found = raced_eight_times(gains)
    best, near, out = (estimate(found, each.candidate) for each in runs)
    # `best`, `near` and `out` are the estimates of three candidates. The intervals of `near` and
    # `out` overlap, but the upper end of `out` is below the estimate of `best`.
    assert best.low < near.speedup < out.high < best.speedup
    assert out.candidate not in contenders(found, [each.candidate for each in runs])


def test_candidates_that_promise_more_than_every_finalist_challenge_them() -> None:
    """If a method races slower than theory predicts, it may be faster with another draft length."""
    runs = [run("x", TWO_THIRDS, K, 0.02, 0.0) for K in (2, 8)] + [run("y", HALF, 5, 0.5, 0.0)]
    race = raced(runs[1], 1.2, 0)
    found = replace(probe(*runs, race), finalists=(Candidate("x", 8),))
    best = estimate(found, Candidate("x", 8)).speedup
    better = challengers(found)
    assert Candidate("x", 5) in better and Candidate("x", 8) not in better
    assert {each.method for each in better} == {"x"}
    promises = [estimate(found, each).speedup for each in better]
    assert promises == sorted(promises, reverse=True) and promises[-1] > best
    # The advisor does not choose a candidate that promises more but has not raced.
    assert of(found).best.candidate == Candidate("x", 8)
    # Method x with K = 2 reached a speedup of 3 in one lucky race and has left the race. It must
    # not return as a challenger.
    left = replace(found, runs=(*found.runs, raced(runs[0], 3.0, 0)))
    assert Candidate("x", 2) not in challengers(left)
    both = replace(found, finalists=(Candidate("x", 8), Candidate("y", 5)))
    assert estimate(both, Candidate("y", 5)).speedup < best and challengers(both) == better


FINE = (run("x", TWO_THIRDS, 2, 0.02, 0.0), run("x", TWO_THIRDS, 6, 0.02, 0.0))


def test_without_any_obstacle_acceptance_is_the_only_reason() -> None:
    advice = of(probe(*FINE))
    assert advice.speculate and names(advice) == {"acceptance"}


def test_a_slow_draft_is_named_with_its_cost() -> None:
    advice = of(probe(run("x", TWO_THIRDS, 2, 0.4, 0.0)))
    (reason,) = (each for each in advice.reasons if each.name == "slow-draft")
    assert reason.value == pytest.approx(0.4)
    assert not reason.speaks_for


def test_a_short_output_is_a_reason_if_its_last_round_or_its_prefill_costs() -> None:
    short, long = (of(probe(*FINE, at=workload(max_new_tokens=n))) for n in (6, 2000))
    assert "short-outputs" in names(short) and "short-outputs" not in names(long)
    (reason,) = (each for each in short.reasons if each.name == "short-outputs")
    assert "Outputs of 6 tokens are short" in reason.sentence and 0 < reason.value < 0.9


def test_a_drafter_with_a_long_prefill_is_named() -> None:
    reading = replace(run("x", HALF, 4, 0.1, 0.0), draft_prefill_seconds=40 * STEP)
    (reason,) = (
        each
        for each in of(probe(reading, at=workload(max_new_tokens=100))).reasons
        if each.name == "draft-prefill"
    )
    assert "also reads the prompt (20 tokens)." in reason.sentence
    assert "40.0 plain steps" in reason.sentence and not reason.speaks_for
    # For an output of 4096 tokens, the time of the drafter's prefill does not matter.
    assert "draft-prefill" not in names(of(probe(reading)))


def test_a_request_that_mostly_reads_its_prompt_is_called_prefill_bound() -> None:
    slow = replace(
        probe(*FINE, at=workload(max_new_tokens=50)), baselines=(baseline(0, 50 * STEP),)
    )
    advice = of(slow)
    (reason,) = (each for each in advice.reasons if each.name == "prefill-bound")
    assert reason.value == pytest.approx(50 / 99)
    assert "at most 1.98x" in reason.sentence
    assert "prefill-bound" not in names(of(probe(*FINE, at=workload(max_new_tokens=50))))


@pytest.mark.parametrize(("cold", "is_named"), [(TWO_THIRDS, True), (HALF, False)])
def test_temperature_is_a_reason_only_if_acceptance_is_higher_without_it(
    cold: Fraction, is_named: bool
) -> None:
    warm = run("x", HALF, 6, 0.05, 0.0)
    found = replace(
        probe(warm, at=workload(temperature=1.0)), greedy=(run("x", cold, 6, 0.05, 0.0),)
    )
    values = [each.value for each in of(found).reasons if each.name == "high-temperature"]
    assert values == ([pytest.approx(0.5)] if is_named else [])


def test_temperature_is_a_reason_only_on_the_same_prompts() -> None:
    """The advisor compares the acceptance of two runs only if both belong to the same block.

    The runs of a block took place at about the same time, on the same prompts. The run `harder`
    belongs to another block than the greedy run.
    """
    same, harder = run("x", TWO_THIRDS, 6, 0.05, 0.0), run("x", FIFTH, 6, 0.05, 0.0, block=1)
    found = probe(
        same, harder, replace(harder, block=0, is_race=True), at=workload(temperature=1.0)
    )
    found = replace(found, baselines=(baseline(0), baseline(1)))
    assert "high-temperature" not in names(of(replace(found, greedy=(same,))))
    assert "high-temperature" in names(of(replace(found, greedy=(replace(same, block=1),))))


def test_temperature_is_not_a_reason_if_the_gap_may_be_chance() -> None:
    # These two runs have only 4 and 9 rounds, too few to show a difference.
    warm, cold = run("x", HALF, 2, 0.05, 0.0), run("x", TWO_THIRDS, 2, 0.05, 0.0)
    found = replace(probe(warm, at=workload(temperature=1.0)), greedy=(cold,))
    assert "high-temperature" not in names(of(found))


@pytest.mark.parametrize(("slope", "is_named"), [(1.0, True), (0.0, False)])
def test_a_batch_is_a_reason_only_if_verifying_its_tokens_costs_more(
    slope: float, is_named: bool
) -> None:
    curve = ForwardCurve((1, 8), (STEP, STEP * (1 + 7 * slope)))
    found = replace(probe(*FINE, at=workload(batch_size=16)), batch_curve=curve)
    assert ("large-batch" in names(of(found))) is is_named
    assert "large-batch" not in names(of(replace(found, workload=workload())))


def test_a_vocabulary_is_a_reason_only_if_it_differs() -> None:
    refusals = (Refusal("draft-model", "another vocabulary", 0.42), Refusal("medusa", "no heads"))
    advice = of(replace(probe(*FINE), refusals=refusals))
    (reason,) = (each for each in advice.reasons if each.name == "vocabulary")
    assert reason.value == 0.42 and "42 %" in reason.sentence
    assert "vocabulary" not in names(of(replace(probe(*FINE), refusals=refusals[1:])))
    assert advice.refusals == refusals


@pytest.mark.parametrize(
    ("drafter", "free", "is_named"),
    [(10, 10_000, False), (30, 10_000, True), (10, 20, True), (10, None, False)],
)
def test_memory_is_a_reason_if_the_drafter_takes_much_of_it(
    drafter: int, free: int | None, is_named: bool
) -> None:
    found = probe(run("x", HALF, 4, 0.05, 0.0, held_bytes=drafter), at=workload(free_bytes=free))
    assert ("memory" in names(of(found))) is is_named


def test_advice_is_a_json_value_with_every_number() -> None:
    import json

    shown = json.loads(json.dumps(of(probe(*FINE)).to_dict(), allow_nan=False))
    assert shown["speculate"] and shown["method"] == "x"
    low, high = shown["interval"]
    assert low <= shown["speedup"] <= high
    assert {"sentence", "value", "name", "speaks_for"} == set(shown["reasons"][0])
    assert FLAT.at(1) == STEP


def test_a_gain_that_may_be_a_loss_is_called_uncertain() -> None:
    best = of(probe(run("x", HALF, 4, 0.01, 0.0))).best
    for low, beginning in (
        (0.9, "Speculate with x, K = 4, but it may not pay"),
        (1.1, "Speculate with x, K = 4: "),
    ):
        advice = Advice(True, replace(best, candidate=Candidate("x", 4), low=low), (), (), ())
        assert advice.verdict.startswith(beginning)


def test_the_result_of_a_sweep_is_its_fastest_undisturbed_point_of_the_same_pair() -> None:
    def point(draft_length: int, speedup: float) -> dict[str, object]:
        setting = {"draft-length": draft_length}
        return {"setting": setting, "speedup": speedup, "block_efficiency": 2.0}

    sweep = {"pair": "bundled", "config": {"method": "eagle", "draft_length": 3}}
    sweep |= {"points": [point(1, 1.2), point(5, 1.67), point(8, 2.4)]}
    assert fastest_of_sweep(sweep, "bundled") == MeasuredBefore("eagle", 5, 1.67)
    assert fastest_of_sweep(sweep, "smollm2") is None
    for broken in ({}, sweep | {"points": []}, sweep | {"points": [{}]}, sweep | {"config": 1}):
        assert fastest_of_sweep(broken, "bundled") is None
