"""The advisor probes every method of the bundled pair, races the best ones, and can be stopped."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice

import pytest

from specviz.advisor.calm import calm_seconds
from specviz.advisor.measured_before import MeasuredBefore
from specviz.advisor.probe import Candidate
from specviz.errors import InputError
from specviz.experiments.advice import advice_check, probing
from specviz.experiments.advice import advising as measuring
from specviz.experiments.advice.advice_check import PASSES, AdviceCheck
from specviz.experiments.advice.advising import PROBED, PROMPTS, RUN_SHARE, Advising
from specviz.experiments.advice.likely_order import likely_first
from specviz.experiments.advice.probing import (
    AdviceRequest,
    candidate_of,
    run_baseline,
    run_candidate,
)
from specviz.forward_curve import ForwardCurve
from specviz.models.pair_catalog import custom_pair, pair_named
from specviz.prompts import held_out_prompts
from specviz.records import DecodingConfig
from tests.random_traces import changed
from tests.tiny_trace import tiny_trace

CONFIG = DecodingConfig(max_new_tokens=12)
REQUEST = AdviceRequest(
    pair_named("bundled"),
    held_out_prompts("code")[:3],
    CONFIG,
    "code",
    methods=("draft-model", "prompt-lookup"),
    device="cpu",
)


@pytest.fixture
def two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit the advisor to two passes over the prompts, however much time it has."""
    monkeypatch.setattr(measuring, "MOST_PASSES", 2)


@pytest.mark.usefixtures("two_passes")
def test_every_method_is_probed_and_then_the_best_ones_race_with_a_baseline() -> None:
    # 60 seconds are far more than the probes need.
    advising = Advising(replace(REQUEST, prompts=REQUEST.prompts[:1]), seconds=60)
    steps = list(advising)
    assert [step.stage for step in steps] == sorted(step.stage for step in steps)
    assert steps[-1].seconds > steps[0].seconds > 0
    probe = advising.probe
    lengths = {(r.candidate.method, r.candidate.draft_length) for r in probe.runs if not r.is_race}
    assert lengths == {(method, length) for method in REQUEST.methods for length in PROBED}
    races = [run for run in probe.runs if run.is_race]
    assert races and {run.block for run in probe.runs} <= {each.block for each in probe.baselines}
    advice = advising.advice()
    assert advice is not None and advice.best.races > 0
    assert advice.best.low <= advice.best.speedup <= advice.best.high


def test_a_probed_run_gets_its_share_of_the_time_divided_over_all_prompts() -> None:
    advising = Advising(REQUEST, seconds=48)
    curve = ForwardCurve((1, 8), (0.01, 0.01))
    advising.probe = replace(advising.probe, batch_curve=curve)
    next(iter(advising))
    (plain,) = advising.probe.baselines
    assert plain.tokens == 48 * RUN_SHARE / 0.01 == 24 * PROMPTS


def test_the_fastest_setting_of_a_sweep_is_probed_first() -> None:
    before = MeasuredBefore("prompt-lookup", 4, 1.67)
    advising = Advising(replace(REQUEST, before=before), seconds=20)
    steps = iter(advising)
    while not advising.probe.runs:
        next(steps)
    (first,) = advising.probe.runs
    assert (first.candidate.method, first.candidate.draft_length) == ("prompt-lookup", 4)
    advice = advising.advice()
    assert advice is not None and not advice.verdict.startswith("Not decided")


def test_advising_can_be_stopped_at_any_step_and_keeps_its_measurements() -> None:
    advising = Advising(REQUEST, seconds=20)
    assert advising.advice() is None
    steps = iter(advising)
    list(islice(steps, 2))  # stop after the baseline and the first method
    steps.close()  # type: ignore[attr-defined]
    advice = advising.advice()
    assert advice is not None
    first, *others = likely_first(REQUEST.pair, REQUEST.methods)
    assert {each.candidate.method for each in advice.ranking} == {first}
    assert advice.untried and set(advice.untried.methods) == set(others)


def test_a_run_keeps_every_round_but_counts_acceptance_only_of_full_drafts() -> None:
    candidate, prompts = candidate_of("draft-model", 4), REQUEST.prompts[:2]
    found = run_candidate(REQUEST, candidate, prompts, 12, 0)
    assert found.tokens == 24 and len(found.rounds) >= 2 * 3
    rounds = [each for each in found.rounds if each.accepted]
    # In a request's last rounds, fewer than 4 tokens are left to write. So the drafts of these
    # rounds have fewer than 4 tokens.
    assert len(rounds) < len(found.rounds)
    assert all(each.levels == each.nodes == 4 for each in rounds)
    assert all(0 <= passed <= 4 for each in rounds for passed in each.accepted)
    alone = calm_seconds([each.seconds for each in found.rounds]) + 2 * (
        found.first_seconds + found.draft_prefill_seconds
    )
    assert found.total_seconds == pytest.approx(alone)


@pytest.mark.slow
def test_the_drafter_s_prefill_is_measured_separately_from_its_rounds() -> None:
    """The prompt has 400 tokens, so that the drafter's prefill takes longer than any draft level.

    The test runs several times, because other work on the machine may delay a round.
    """
    long = replace(REQUEST, prompts=("x = 1 + 2\n" * 60,), task=None)

    def is_apart(method: str) -> bool:
        found = run_candidate(long, candidate_of(method, 2), long.prompts, 8, 0)
        first, *others = found.rounds
        assert found.draft_prefill_seconds > 0
        assert found.total_seconds >= found.first_seconds + found.draft_prefill_seconds
        return first.draft_seconds < 4 * max(each.draft_seconds for each in others)

    for method in ("draft-model", "eagle", "quantised-self", "pre-speculation"):
        assert any(is_apart(method) for _ in range(8)), method
    lookup = run_candidate(long, candidate_of("prompt-lookup", 2), long.prompts, 8, 0)
    assert lookup.draft_prefill_seconds == 0  # prompt lookup has no model that reads the prompt


def test_a_round_disturbed_by_other_work_counts_as_twice_a_usual_round() -> None:
    usual = [1.0, 1.9, 1.0, 1.4, 1.0]
    assert calm_seconds(usual) == pytest.approx(sum(usual))
    assert calm_seconds([*usual, 50.0]) == pytest.approx(sum(usual) + 2 * 1.2)
    assert calm_seconds([]) == 0


def test_a_batch_is_measured_as_a_batch() -> None:
    request = replace(REQUEST, batch_size=3, methods=("draft-model",))
    prompts = request.texts(3)
    plain = run_baseline(request, prompts, 12, 0)
    assert (plain.tokens, plain.steps) == (36, 11)
    found = run_candidate(request, candidate_of("draft-model", 2), prompts, 12, 0)
    assert found.tokens == 36 and max(len(each.accepted) for each in found.rounds) == 3

    def is_dearer_than_a_row() -> bool:
        """Return whether a step of the batch takes longer than a step of one sequence.

        Other work on the machine may slow either measurement.
        """
        probe = Advising(request, seconds=3).probe
        return probe.batch_curve.at(1) > probe.row_curve.at(1)

    assert any(is_dearer_than_a_row() for _ in range(4))
    assert next(iter(Advising(request, seconds=3))).doing == "the baseline"


def test_the_prefill_of_a_batch_counts_once_even_if_a_row_ends_with_its_first_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = tiny_trace()
    reading = replace(whole.rounds[0], draft_prefill_seconds=0.5)
    rows = [changed(whole, rounds=(reading, *whole.rounds[1:])), changed(whole, rounds=())]
    monkeypatch.setattr(probing, "_decode", lambda *_: rows)
    request = replace(REQUEST, batch_size=2)
    found = run_candidate(request, candidate_of("draft-model", 4), request.prompts[:2], 12, 0)
    assert found.draft_prefill_seconds == 0.5
    rounds = sum(each.seconds for each in found.rounds)
    assert found.total_seconds == pytest.approx(found.first_seconds + 0.5 + rounds)


@pytest.mark.usefixtures("two_passes")
def test_methods_that_the_pair_cannot_run_are_refused_with_a_reason_and_the_rest_continues() -> (
    None
):
    bundled = REQUEST.pair
    pair = custom_pair(bundled.target, bundled.foreign_draft)
    methods = ("medusa", "draft-model", "prompt-lookup")
    advising = Advising(replace(REQUEST, pair=pair, methods=methods), seconds=4)
    list(advising)
    refused = {each.method: each for each in advising.probe.refusals}
    assert set(refused) == {"medusa", "draft-model"}
    assert "has no Medusa heads" in refused["medusa"].why
    assert refused["medusa"].shared_share is None
    share = refused["draft-model"].shared_share
    assert share is not None and 0 < share < 1
    advice = advising.advice()
    assert advice is not None and "vocabulary" in {each.name for each in advice.reasons}


class Clock:
    """A clock that advances by one second each time it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def seconds(self) -> float:
        self.now += 1
        return self.now


def test_methods_without_time_left_say_how_many_seconds_would_be_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    methods = ("draft-model", "draft-tree", "eagle", "prompt-lookup")
    request = replace(REQUEST, methods=methods, config=replace(CONFIG, max_new_tokens=3))
    monkeypatch.setattr(measuring, "own_time", Clock().seconds)
    short = Advising(request, seconds=14)
    list(short)
    advice = short.advice()
    assert advice and advice.untried and not short.probe.refusals
    left = {each["method"]: each["why"] for each in advice.to_dict()["refusals"]}
    assert 0 < len(left) < len(methods) and advice.untried.tried == len(methods) - len(left)
    # The advisor first probes the method that is most likely to be the fastest.
    assert "draft-model" not in left
    (why,) = set(left.values())
    found = re.fullmatch(r"no time was left to try it; (\d+) seconds would be enough", why)
    assert found and int(found[1]) > 14
    if not advice.speculate:
        assert advice.verdict.startswith(f"Not decided: {advice.untried.tried} of 4 methods")
    monkeypatch.setattr(measuring, "own_time", Clock().seconds)
    enough = Advising(request, seconds=int(found[1]))
    list(enough)
    advice = enough.advice()
    assert advice and not advice.untried


def test_with_little_time_one_prompt_is_enough_for_a_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "own_time", Clock().seconds)
    advising = Advising(REQUEST, seconds=8)
    list(advising)
    assert all(len(run.prompts) == 1 for run in advising.probe.runs if not run.is_race)


def test_promising_methods_are_probed_first_and_a_draft_as_large_as_its_target_last() -> None:
    bundled = REQUEST.pair
    usual = likely_first(bundled, ("prompt-lookup", "layer-skip", "draft-model", "quantised-self"))
    assert usual == ("quantised-self", "draft-model", "prompt-lookup", "layer-skip")
    same = custom_pair(bundled.target, bundled.target)
    methods = ("draft-model", "draft-tree", "quantised-self", "prompt-lookup")
    assert likely_first(same, methods) == (
        "quantised-self",
        "prompt-lookup",
        "draft-model",
        "draft-tree",
    )
    alone = custom_pair(bundled.target)
    # The pair has no draft model, so the advisor refuses `draft-model` without a measurement. Such
    # methods come first, because refusing them takes no time.
    assert likely_first(alone, ("quantised-self", "draft-model"))[0] == "draft-model"


@pytest.mark.slow
@pytest.mark.usefixtures("two_passes")
def test_above_temperature_0_the_best_is_also_measured_at_temperature_0() -> None:
    warm = replace(REQUEST, config=replace(CONFIG, temperature=1.0))
    advising = Advising(warm, seconds=4)
    list(advising)
    (greedy,) = advising.probe.greedy
    (beside,) = (
        run
        for run in advising.probe.runs
        if (run.candidate, run.block) == (greedy.candidate, greedy.block)
    )
    assert not beside.is_race and beside.tokens == greedy.tokens
    assert beside.prompts == greedy.prompts


def test_temperature_0_and_almost_0_are_measured_on_the_same_prompts() -> None:
    request = replace(REQUEST, config=replace(CONFIG, temperature=0.001), methods=("draft-model",))
    advising = Advising(request, seconds=3)
    steps = iter(advising)
    while not advising.probe.greedy:
        next(steps)
    (greedy,) = advising.probe.greedy
    beside = advising.probe.runs[0]
    assert [each.accepted for each in greedy.rounds] == [each.accepted for each in beside.rounds]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompts": ()}, "prompts must have at least one text"),
        ({"prompts": (" ",)}, "prompt must have some text"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1 to 64, got 0"),
        ({"batch_size": 65}, "batch_size must be a whole number from 1 to 64, got 65"),
        ({"methods": ()}, "methods must name at least one"),
        ({"methods": ("magic",)}, "methods must be among draft-model, .* got 'magic'"),
        ({"task": "poems"}, "task must be one of"),
    ],
)
def test_a_request_that_breaks_a_rule_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(REQUEST, **changes)  # type: ignore[arg-type]


def test_a_prompt_that_leaves_no_space_for_the_output_is_refused_at_once_by_its_number() -> None:
    request = replace(REQUEST, prompts=("def f():", "x = 1\n" * 2000))
    with pytest.raises(InputError, match="prompt 2 is invalid: prompt must have at"):
        Advising(request)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_limit_that_is_not_positive_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="seconds must be a positive number"):
        Advising(REQUEST, seconds)


def test_a_check_measures_every_setting_and_counts_plain_decoding_as_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(advice_check, "PROMPTS", 1)
    request = replace(REQUEST, methods=("draft-model",), config=replace(CONFIG, max_new_tokens=6))
    check = AdviceCheck(request, Candidate("draft-model", 2), (1, 2))
    list(check)
    result = check.result()
    assert {each.candidate.draft_length for each in result.settings} == {1, 2}
    chosen = next(each for each in result.settings if each.candidate.draft_length == 2)
    assert result.advised_speedup == chosen.speedup and chosen.passes == 1 + PASSES
    assert result.reached <= 1
    assert replace(result, chosen=None).advised_speedup == 1.0
    assert replace(result, settings=()).best_speedup == 1.0
