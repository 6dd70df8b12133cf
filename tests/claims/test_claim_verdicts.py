"""Each claim is decided by the rule of its kind, and other numbers change the verdict.

K is the number of drafted tokens. In units of the time of a plain step, c is the cost of a draft
step, and v the additional cost of a verification.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from specviz.claims import measured_rules, theory_rules
from specviz.claims.all_claims import CLAIMS, claim_numbered
from specviz.claims.claim import ClaimKind, ClaimVerdict
from specviz.errors import InputError
from specviz.lessons import read_lessons

HALF = (0.5, 0.5)
PAIRS = CLAIMS[16].numbers["pairs"]


def test_all_32_claims_are_in_order_and_none_occurs_twice() -> None:
    assert list(CLAIMS) == list(range(1, 33))
    assert len({claim.said for claim in CLAIMS.values()}) == 32
    assert len({claim.title for claim in CLAIMS.values()}) == 32
    assert (
        "".join(sorted({text for claim in CLAIMS.values() for text, _ in claim.sources})) == "ABCDE"
    )


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: str(claim.number))
def test_a_claim_is_decided_by_the_rule_of_its_kind(claim: Any) -> None:
    finding = claim.theory()
    assert (finding.verdict is None) == (claim.kind is ClaimKind.MEASURABLE)
    assert (claim.verdict() is ClaimVerdict.UNDECIDED) == (claim.kind is ClaimKind.MEASURABLE)
    if claim.kind is ClaimKind.MEASURABLE:
        assert claim.settings, "nothing could ever decide it"


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: str(claim.number))
def test_a_report_is_complete_and_can_be_written_as_json(claim: Any) -> None:
    made = json.loads(json.dumps(claim.report(), allow_nan=False))
    kept = {"number", "title", "said", "sources", "kind", "decided_by", "verdict", "theory"}
    others = {"settings", "not_measurable", "measured", "answer", "lesson", "own_numbers"}
    assert set(made) == kept | others
    assert made["verdict"] in {each.value for each in ClaimVerdict}
    assert made["measured"] is None
    assert bool(made["settings"]) == (made["not_measurable"] is None)
    for number in made["theory"]["numbers"]:
        assert set(number) == {"name", "value", "unit", "claimed"}
        assert math.isfinite(number["value"])
    names = [number["name"] for number in made["theory"]["numbers"]]
    assert len(set(names)) == len(names)
    for text in (made["title"], made["said"], made["answer"], made["theory"]["sentence"]):
        assert text.strip() == text and text


CONDITIONAL, HOLDS, WRONG = ClaimVerdict.CONDITIONAL, ClaimVerdict.HOLDS, ClaimVerdict.WRONG
TURNED = [
    (1, {"claimed_accepted": 2.7, "claimed_speedup": 2.5}, HOLDS),
    (1, {"claimed_speedup": 6.0, "practice": (5.0, 6.0)}, WRONG),
    (2, {"p": HALF, "q": HALF}, HOLDS),
    (3, {"p": HALF, "q": HALF}, HOLDS),
    (4, {"p": HALF, "q": HALF, "after": HALF}, HOLDS),
    (6, {"rate": 60.0}, CONDITIONAL),
    (6, {"rate": 20.0, "weights": 8e9}, HOLDS),
    (8, {"tokens_per_day": 40e6, "first_token": (0.180, 0.090)}, HOLDS),
    (8, {"first_token": (0.180, 0.090)}, CONDITIONAL),
    (12, {"c": 0.0}, HOLDS),
    (12, {"c": 0.031}, HOLDS),
    (13, {"claimed_speedup": 4.5}, WRONG),
    (15, {"steps": ((0.8, 2.46), (0.6, 1.59))}, HOLDS),
    (15, {"steps": ((0.8, 1.0), (0.4, 3.0))}, WRONG),
    (16, {"pairs": PAIRS[:1]}, HOLDS),
    (16, {"pairs": PAIRS[1:2]}, WRONG),
    (16, {"pairs": (PAIRS[0] | {"high": 2.5},)}, HOLDS),
    (20, {"p": (1.0, 0.0), "q": (0.0, 1.0)}, HOLDS),
    # the text is exact, but no drafted token is accepted
    (20, {"p": (0.0, 0.5, 0.5), "q": (1.0, 0.0, 0.0)}, HOLDS),
    (21, {"low": 2.0}, HOLDS),
    (21, {"ridge": 20.0}, WRONG),
    (23, {"weights_ratio": 0.2}, HOLDS),
    (23, {"runs": ((5, 300.0, 0.18),)}, WRONG),
    (24, {"said": 3.8}, CONDITIONAL),
    (26, {"few_tokens": 5}, HOLDS),
    (27, {"logits": ((0.0, -math.inf), (-math.inf, 0.0))}, HOLDS),
    (29, {"claimed_tokens": 3.4}, HOLDS),
    (29, {"claimed_tokens": 6.0}, WRONG),
    (30, {"low": 0.003, "high": 0.01, "context": 100}, HOLDS),
    (30, {"low": 0.95, "high": 1.0}, WRONG),
]


@pytest.mark.parametrize(("number", "numbers", "verdict"), TURNED)
def test_other_numbers_give_another_verdict(
    number: int, numbers: dict[str, Any], verdict: ClaimVerdict
) -> None:
    claim = CLAIMS[number]
    assert claim.theory(**numbers).verdict is verdict
    assert claim.verdict() is not verdict


def test_a_gain_that_only_the_low_end_of_a_claimed_range_reaches_is_reported() -> None:
    """Within the claimed range, 2x is possible and 9x is not."""
    one = CLAIMS[16].theory(pairs=(PAIRS[0] | {"high": 9.0},))
    assert one.verdict is CONDITIONAL and "reaches no more than" in one.sentence
    (best,) = (each for each in one.numbers if each.name.endswith("best K"))
    assert best.claimed == 9.0


@pytest.mark.parametrize(
    ("number", "numbers"),
    [
        # the claim is right only if 0.8 is the accepted share of all drafted tokens and c = 0.05
        (1, {}),
        (13, {}),
        (15, {}),
    ],
)
def test_a_claim_without_a_cost_is_tried_with_usual_costs_only(
    number: int, numbers: dict[str, Any]
) -> None:
    """4 tokens per round give 3x at c = 0.067, but 4x only if drafting is free."""
    assert CLAIMS[number].theory(**numbers).verdict is CONDITIONAL


@pytest.mark.parametrize(
    ("number", "numbers"),
    [
        # The claimed speedup is larger than even a draft that costs nothing would give.
        (1, {"claimed_speedup": 5.2, "practice": (5.0, 6.0)}),
        (13, {"claimed_speedup": 4.5}),
        # a speedup of 1.0 would need c = 0.6, above the typical costs
        (13, {"claimed_speedup": 1.0}),
        (15, {"steps": ((0.8, 3.0), (0.6, 1.0))}),  # each speedup fits some c, but no c fits both
    ],
)
def test_a_claim_that_fits_no_usual_cost_is_wrong(number: int, numbers: dict[str, Any]) -> None:
    assert CLAIMS[number].theory(**numbers).verdict is WRONG


def test_temperature_1_does_not_count_as_below_1() -> None:
    """With these logits, the overlap at temperature 1 decides whether the claim holds."""
    apart = ((0.0, -math.inf), (-math.inf, 0.0))
    assert CLAIMS[27].theory(logits=apart, temperatures=(0.5, 1.0)).verdict is HOLDS
    assert CLAIMS[27].theory(temperatures=(0.5, 1.0)).verdict is WRONG


def test_every_rule_judges_a_claim() -> None:
    used = {claim.theory_rule for claim in CLAIMS.values()}
    assert used == set(theory_rules.RULES.values())
    measured = {claim.measured_rule for claim in CLAIMS.values()} - {None}
    assert measured == set(measured_rules.RULES.values())


@pytest.mark.parametrize("number", [0, 33, -1])
def test_an_unknown_number_is_refused(number: int) -> None:
    with pytest.raises(
        InputError, match=f"number must be a whole number from 1 to 32, got {number}"
    ):
        claim_numbered(number)


@pytest.mark.parametrize(
    ("number", "verdict"),
    # all three rules are exact at temperature 0
    [(2, CONDITIONAL), (3, CONDITIONAL), (4, CONDITIONAL)],
)
def test_rules_that_are_exact_only_at_temperature_0_hold_under_that_condition(
    number: int, verdict: ClaimVerdict
) -> None:
    assert CLAIMS[number].verdict() is verdict
    assert "temperature 0" in CLAIMS[number].answer


def test_a_claim_that_names_its_pair_is_decided_at_that_pair_s_cost() -> None:
    """Claim 12: a speedup within a tenth of 2.9x needs c <= 0.031, but its pair has c = 0.11."""
    claim = CLAIMS[12]
    assert claim.verdict() is WRONG and claim.theory(c=0.032).verdict is WRONG
    values = {each.name: each for each in claim.theory().numbers}
    assert values["largest c for 2.9×, give or take a tenth"].value == pytest.approx(
        0.031, abs=1e-3
    )
    assert values["speedup per GPU if 2.9× were true"].value == pytest.approx(2.9 * 4 / 5)


def test_the_gain_in_practice_that_claim_1_names_agrees_with_theory() -> None:
    low, high = CLAIMS[1].numbers["practice"]
    (speedup,) = (n.value for n in CLAIMS[1].theory().numbers if n.name == "speedup at c = 0.1")
    assert low <= speedup <= high and CLAIMS[1].verdict() is CONDITIONAL


def test_machines_that_the_time_to_first_token_needs_are_not_saved() -> None:
    """Claim 8 says that 2 machines replace 4, although the first token takes 195 instead of 180 ms.

    To keep the time to the first token, 4 * 195 / 180 = 4.33 machines are needed.

    If the load is the same at all times, the claim saves no machine. It saves money only at peaks.
    """
    claim = CLAIMS[8]
    values = {each.name: each for each in claim.theory().numbers}
    assert claim.verdict() is WRONG
    assert values["machines after, to keep the first token"].value == 5
    assert (values["saved a year"].value, values["saved a year"].claimed) == (0, 150_000)
    at_a_peak = {each.name: each.value for each in claim.theory(peak=4.0).numbers}
    assert at_a_peak["saved a year"] == pytest.approx(150_000)


def test_the_claimed_six_times_is_tested_as_latency_and_as_throughput() -> None:
    """24 sequences instead of 8, each 2.46 times as fast, give 7.4x; one answer gets 2.46x."""
    values = {each.name: each.value for each in CLAIMS[21].theory().numbers}
    assert values["speedup of one row"] == pytest.approx(2.46, abs=0.01)
    assert values["throughput over naive, together"] == pytest.approx(7.38, abs=0.01)
    assert CLAIMS[21].verdict() is CONDITIONAL
    # With 3 x 64 = 192 sequences, arithmetic limits the forward pass, so verifying drafts costs
    # more.
    assert CLAIMS[21].theory(rows=64).verdict is WRONG


def test_a_mixture_of_experts_loses_because_verified_tokens_use_other_experts() -> None:
    """Claim 16: 6 tokens use 8 (1 - 0.75^6) = 6.6 experts, so v = 2.0 and K = 5 gives 0.51x."""
    v = theory_rules.expert_overhead(PAIRS[1], 6)
    one = (46.7 - 12.9) / 6
    assert v == pytest.approx((8 * (1 - 0.75**6) - 2) * one / 12.9) and round(v, 1) == 2.0
    values = {each.name: each.value for each in CLAIMS[16].theory().numbers}
    assert values["Mixtral 8x7B + Mistral 7B, K = 5"] == pytest.approx(0.51, abs=0.005)
    assert values["GPT-2 + DistilGPT-2, best K"] < 1
    assert "GPT-2 + DistilGPT-2 loses with every K" in CLAIMS[16].theory().sentence


def test_claims_23_and_24_interpret_the_rejected_share_in_the_same_way() -> None:
    """18 % of all drafted tokens are rejected, which gives 5.1 tokens per round at K = 5."""
    assert CLAIMS[23].numbers["runs"][0][2] == CLAIMS[24].numbers["rejected"] == 0.18
    values = {each.name: each for each in CLAIMS[24].theory().numbers}
    speedup = values["speedup at K = 5, 18 % rejected"]
    assert speedup.value == pytest.approx(5.1 / (1 + 5 * 3.8 / 8)) and speedup.claimed == 2.1


def test_claim_17_is_compared_with_the_published_comparison() -> None:
    values = {each.name: each for each in CLAIMS[17].theory().numbers}
    eagle = values["Spec-Bench, EAGLE-2"]
    assert (eagle.value, eagle.claimed) == (2.36, 3.0)


@pytest.mark.parametrize(("number", "verdict"), [(14, CONDITIONAL), (18, WRONG)])
def test_claims_that_theory_decides_need_no_measurement(number: int, verdict: ClaimVerdict) -> None:
    assert CLAIMS[number].verdict() is verdict


def test_speedups_for_claim_29_follow_from_both_meanings_of_its_rate() -> None:
    values = {each.name: each.value for each in CLAIMS[29].theory().numbers}
    assert values["speedup at c = 0.1, a per drafted token"] == pytest.approx(4.2 / 1.4)


TEXTS_SAY = {1: {4.0}, 6: {125.0}, 8: {4, 2, 150_000.0}, 10: {0.6}, 12: {2.9, 87.0}, 13: {3.0},
             15: {3.0, 2.0, 1.5}, 16: {1.5, 2.0, 2.5, 3.0}, 17: {2.0, 1.5, 3.0}, 21: {6.0},
             23: {89.0, 104.0}, 24: {0.08, 2.1}, 29: {4.2}, 30: {0.1, 0.3}}  # fmt: skip


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: str(claim.number))
def test_a_number_is_called_claimed_only_if_the_text_contains_it(claim: Any) -> None:
    claimed = {each.claimed for each in claim.theory().numbers} - {None}
    assert claimed <= TEXTS_SAY.get(claim.number, set())


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: str(claim.number))
def test_an_answer_is_one_short_line_with_a_number_and_a_lesson(claim: Any) -> None:
    assert 30 < len(claim.answer) <= 150 and any(char.isdigit() for char in claim.answer)
    assert "None" not in claim.answer and "{" not in claim.answer
    assert claim.lesson in {lesson.name for lesson in read_lessons()}
