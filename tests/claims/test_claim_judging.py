"""Measured results decide claims as their rules describe; the results here are made up."""

from __future__ import annotations

from typing import Any

import pytest

from specviz.claims.all_claims import CLAIMS
from specviz.claims.claim import ClaimVerdict
from specviz.claims.measured_rules import combined_sizes, inside, pays
from specviz.claims.theory_rules import combined
from tests.claims.results import batches, distributions, exactness, grid, grid_of, point

CONDITIONAL, HOLDS = ClaimVerdict.CONDITIONAL, ClaimVerdict.HOLDS
WRONG, UNDECIDED = ClaimVerdict.WRONG, ClaimVerdict.UNDECIDED


def lengths(is_sequential: bool = True, five: float = 2.0, **others: Any) -> dict[str, Any]:
    gains = {1: 1.2, 4: 1.5, 5: five, 8: 1.8}
    return grid(
        *(
            point("draft-length", K, gain, draft_seconds=K if is_sequential else 1.0, **others)
            for K, gain in gains.items()
        )
    )


def outputs(gain: float) -> dict[str, Any]:
    return grid_of("output-length", {10: gain, 25: gain, 49: gain})


def temperatures(gain: float, **others: Any) -> dict[str, Any]:
    return grid_of("temperature", {0.7: gain, 1.0: gain, 1.5: gain}, **others)


def temperatures_from_1_on(at_1: float, above: float) -> dict[str, Any]:
    return grid_of("temperature", {0.7: 1.4, 1.0: at_1, 1.5: above})


def vocabularies(same: float, other: float) -> dict[str, Any]:
    return grid_of("method", {"draft-model": same, "cross-vocabulary": other})


TASKS = ("code", "translate", "summarise", "maths", "story")
FLAT = (2.2,) * 5


def tasks(*rates: float, gains: tuple[float, ...] = FLAT, levels: int = 100) -> dict[str, Any]:
    three = zip(TASKS, rates, gains, strict=True)
    return grid(
        *(point("task", task, gain, acceptance=a, levels=levels) for task, a, gain in three)
    )


def methods(**gains: float) -> dict[str, Any]:
    return grid_of("method", {name.replace("_", "-"): gain for name, gain in gains.items()})


def forwards(argument: list[int], config: list[int]) -> dict[str, Any]:
    return {"lengths": [1, 5], "target_forwards": {"argument": argument, "config": config}}


def clocks(chain: list[float], tree: list[float]) -> dict[str, Any]:
    plain = [0.01] * len(chain)
    return {
        "clocks": [
            {"ttft_seconds": [0.01 * each for each in shares], "baseline_ttft_seconds": plain}
            for shares in (chain, tree)
        ]
    }


def steps(short: list[float], long: list[float]) -> dict[str, Any]:
    return {
        "clocks": [
            {"prompt_tokens": 16.0, "step_seconds": short},
            {"prompt_tokens": 400.0, "step_seconds": long},
        ]
    }


def both_distributions(greedy: float, sampled: float) -> dict[str, Any]:
    def of(temperature: float, biased: float, equal: list[float]) -> dict[str, Any]:
        biases = {"two_siblings": [biased] * 2, "resampled_from_p": [biased] * 2}
        return distributions(temperature, overlap=[1.0, 0.5], equal_mass=equal, **biases)

    return {"distributions": [of(0.0, greedy, [1.0, 0.5]), of(1.0, sampled, [0.0, 0.0])]}


OVERLAPS = {
    "distributions": [distributions(each, overlap=[0.5, 0.7]) for each in (0.5, 1.0, 1.5, 2.0)]
}
CLAIMED = (2.3, 2.0, 1.9, 1.7, 1.6)  # speedups that claim 9 names, in the order of its tasks
PROMPTS = grid_of("prompt-length", {16: 1.5, 400: 1.1})
JUDGED = [
    # The claim says that four drafted tokens give 4.0x. Measured, 1.6 are accepted, which gives
    # 2.0x.
    (1, [lengths()], WRONG),
    (1, [lengths(five=1.6)], CONDITIONAL),
    (2, [both_distributions(0.0, 0.1)], CONDITIONAL),
    (3, [both_distributions(0.0, 0.1)], CONDITIONAL),
    (3, [both_distributions(0.1, 0.1)], WRONG),
    (3, [both_distributions(0.0, 0.0)], HOLDS),
    (4, [both_distributions(0.0, 0.1)], CONDITIONAL),
    (4, [both_distributions(0.1, 0.1)], WRONG),
    (7, [clocks([1.0, 1.01], [1.1, 1.12])], HOLDS),
    # a slowdown was measured, but it is far smaller than the claimed one
    (7, [clocks([1.0, 1.001], [1.002, 1.003])], WRONG),
    (7, [clocks([1.0, 1.1], [1.02, 1.03])], WRONG),
    (7, [clocks([1.0, 1.01], [0.9, 1.3])], UNDECIDED),
    (9, [tasks(0.87, 0.82, 0.79, 0.72, 0.68, gains=CLAIMED, levels=9999)], CONDITIONAL),
    (9, [tasks(0.5, 0.3, 0.2, 0.4, 0.9, gains=(1.1, 1.1, 1.0, 1.1, 1.1))], CONDITIONAL),
    (10, [temperatures(1.5), outputs(1.5), vocabularies(1.5, 1.2)], WRONG),
    (10, [temperatures(0.8), outputs(0.8), vocabularies(0.8, 0.7)], HOLDS),
    (10, [temperatures(1.5), outputs(0.8), vocabularies(1.5, 0.7)], CONDITIONAL),
    (12, [lengths()], CONDITIONAL),
    (13, [lengths()], WRONG),
    (13, [lengths(is_sequential=False)], CONDITIONAL),
    (14, [vocabularies(1.5, 1.2), PROMPTS, exactness()], HOLDS),
    (14, [vocabularies(1.2, 1.5), PROMPTS, exactness()], CONDITIONAL),
    (14, [vocabularies(1.5, 1.2), PROMPTS, exactness("biased")], CONDITIONAL),
    (15, [tasks(0.62, 0.62, 0.62, 0.62, 0.62)], HOLDS),
    (15, [tasks(0.9, 0.9, 0.9, 0.9, 0.9)], CONDITIONAL),
    (17, [methods(medusa=2.5, early_exit=1.7, lookahead=1.5, eagle=3.5)], HOLDS),
    (17, [methods(medusa=1.1, early_exit=1.1, lookahead=0.5, eagle=1.5)], CONDITIONAL),
    (18, [forwards([5, 5], [17, 6])], WRONG),
    (18, [forwards([17, 6], [17, 6])], HOLDS),
    (18, [forwards([6, 6], [6, 6])], UNDECIDED),
    (19, [{"noise": [1.15, 1.2]}], WRONG),
    (19, [{"noise": [1.05, 1.1]}], UNDECIDED),
    (19, [{"noise": [0.95, 1.1]}], CONDITIONAL),
    (20, [exactness(), vocabularies(1.5, 1.2)], WRONG),
    (20, [exactness("biased"), vocabularies(1.5, 1.2)], HOLDS),
    (20, [exactness(), grid_of("method", {"cross-vocabulary": 0.5}, acceptance=0.0)], HOLDS),
    (21, [batches(2.0, 2.0, 2.0)], HOLDS),
    (21, [batches(2.0, 1.5, 1.2)], CONDITIONAL),
    (21, [batches(2.0, 1.0, 0.7)], WRONG),
    # In the largest batch the speedup is about a tenth below 2.0. The repeats differ so much that
    # chance can explain this decrease.
    (21, [batches(2.0, 1.9, 1.81)], UNDECIDED),
    (22, [methods(draft_model=1.2, medusa=0.8, eagle=1.2)], HOLDS),
    (22, [methods(draft_model=1.2, medusa=0.8, eagle=1.0)], UNDECIDED),
    (22, [methods(draft_model=1.2, medusa=0.8, eagle=0.9)], CONDITIONAL),
    (22, [methods(draft_model=0.9, medusa=0.8, eagle=0.9)], WRONG),
    (23, [lengths()], CONDITIONAL),
    (25, [batches(1.5, 1.2, 0.8)], WRONG),
    (25, [batches(1.0, 1.2, 1.5)], HOLDS),
    (26, [outputs(1.3)], WRONG),
    (26, [outputs(0.9)], HOLDS),
    (26, [outputs(1.01)], UNDECIDED),
    (27, [OVERLAPS, exactness(), temperatures(1.4)], WRONG),
    (27, [OVERLAPS, exactness(), temperatures(0.8)], CONDITIONAL),
    (27, [OVERLAPS, exactness("biased"), temperatures(0.8)], HOLDS),
    (27, [OVERLAPS, exactness(), temperatures_from_1_on(0.8, 1.4)], CONDITIONAL),
    (28, [batches(1.5, 1.2, 0.8), lengths()], HOLDS),
    (28, [batches(1.5, 1.2, 1.1), lengths()], CONDITIONAL),
    (29, [lengths(draft_utilization=0.4, rounds=5000, levels=9999)], CONDITIONAL),
    # 20 examined levels are too few for a verdict
    (29, [lengths(draft_utilization=0.4, levels=20)], UNDECIDED),
    (30, [steps([0.01, 0.011], [0.02, 0.021])], WRONG),
    (30, [steps([0.01, 0.0101], [0.01, 0.0102])], HOLDS),
    (31, [tasks(0.8, 0.8, 0.8, 0.8, 0.8), grid_of("task", {"summarise": 2.0}),
          batches(1.5, 1.2, 0.8)], HOLDS),
    (31, [tasks(0.8, 0.8, 0.8, 0.8, 0.8), grid_of("task", {"summarise": 1.1}),
          batches(1.5, 1.2, 1.1)], CONDITIONAL),
]  # fmt: skip


@pytest.mark.parametrize(("number", "results", "verdict"), JUDGED)
def test_a_rule_follows_the_measured_numbers(
    number: int, results: list[dict[str, Any]], verdict: ClaimVerdict
) -> None:
    claim = CLAIMS[number]
    assert len(results) == len(claim.settings)
    judged = claim.judge(results)
    assert judged.verdict is verdict
    assert judged.sentence and judged.figures
    decided = claim.theory().verdict
    assert claim.verdict(judged) is (decided or verdict)


@pytest.mark.parametrize(
    ("rates", "gains", "count"),
    [
        ((0.87, 0.82, 0.79, 0.72, 0.68), CLAIMED, 10),
        ((0.87, 0.82, 0.79, 0.72, 0.68), (1.1,) * 5, 5),
        ((0.5, 0.5, 0.5, 0.5, 0.5), CLAIMED, 5),
        ((0.87, 0.82, 0.5, 0.72, 0.68), (2.3, 2.0, 1.9, 1.2, 1.6), 8),
    ],
)
def test_claim_9_is_decided_by_its_numbers_and_not_only_by_their_order(
    rates: tuple[float, ...], gains: tuple[float, ...], count: int
) -> None:
    sentence = CLAIMS[9].judge([tasks(*rates, gains=gains, levels=9999)]).sentence
    assert f"Of 5 rates and 5 speedups {count} are the claim's" in sentence


def test_every_rule_for_measurements_is_tested() -> None:
    judged = {number for number, _, _ in JUDGED}
    assert judged == {claim.number for claim in CLAIMS.values() if claim.settings}


def test_a_verdict_stays_open_while_an_undecided_part_could_change_it() -> None:
    assert combined([True, True]) is HOLDS and combined([False]) is WRONG
    assert combined([True, False, None]) is CONDITIONAL
    assert combined([True, None]) is combined([False, None]) is combined([]) is UNDECIDED


def test_a_number_that_differs_on_this_machine_is_not_called_wrong() -> None:
    assert combined_sizes([False, False]) is CONDITIONAL


def test_a_spread_that_includes_both_answers_decides_nothing() -> None:
    assert [pays(point("a", 1, gain)) for gain in (1.1, 1.01, 0.9)] == [True, None, False]
    # A speedup of exactly 1 is neither a gain nor a loss.
    assert pays(point("a", 1, 1.0, spread=0.0)) is None
    assert [pays(point("a", 1, gain, spread=0.25)) for gain in (1.25, 0.75)] == [None, None]
    assert [inside(2, 3, point("a", 1, gain)) for gain in (1.85, 1.8, 1.7)] == [True, None, False]
