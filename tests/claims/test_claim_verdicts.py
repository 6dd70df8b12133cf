"""All claims are there, each is decided by what its kind says, and other numbers turn verdicts."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from specviz.claims import measured_rules, theory_rules
from specviz.claims.all_claims import CLAIMS, claim_numbered
from specviz.claims.claim import ClaimKind, ClaimVerdict
from specviz.errors import InputError

HALF = (0.5, 0.5)
PAIRS = CLAIMS[16].numbers["pairs"]


def test_all_32_claims_are_there_in_order_and_none_is_said_twice() -> None:
    assert list(CLAIMS) == list(range(1, 33))
    assert len({claim.said for claim in CLAIMS.values()}) == 32
    assert len({claim.title for claim in CLAIMS.values()}) == 32
    assert (
        "".join(sorted({text for claim in CLAIMS.values() for text, _ in claim.sources})) == "ABCDE"
    )


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: str(claim.number))
def test_a_claim_is_decided_by_what_its_kind_says(claim: Any) -> None:
    finding = claim.theory()
    assert (finding.verdict is None) == (claim.kind is ClaimKind.MEASURABLE)
    assert (claim.verdict() is ClaimVerdict.UNDECIDED) == (claim.kind is ClaimKind.MEASURABLE)
    if claim.kind is ClaimKind.MEASURABLE:
        assert claim.settings, "nothing could ever decide it"


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: str(claim.number))
def test_a_report_is_whole_and_json(claim: Any) -> None:
    made = json.loads(json.dumps(claim.report(), allow_nan=False))
    kept = {"number", "title", "said", "sources", "kind", "decided_by", "verdict", "theory"}
    assert set(made) == kept | {"settings", "not_measurable", "measured"}
    assert made["verdict"] in {each.value for each in ClaimVerdict}
    assert made["measured"] is None
    assert bool(made["settings"]) == (made["not_measurable"] is None)
    for number in made["theory"]["numbers"]:
        assert set(number) == {"name", "value", "unit", "claimed"}
        assert math.isfinite(number["value"])
    names = [number["name"] for number in made["theory"]["numbers"]]
    assert len(set(names)) == len(names)
    for text in (made["title"], made["said"], made["theory"]["sentence"]):
        assert text.strip() == text and text


CONDITIONAL, HOLDS, WRONG = ClaimVerdict.CONDITIONAL, ClaimVerdict.HOLDS, ClaimVerdict.WRONG
TURNED = [
    (1, {"claimed_accepted": 2.7, "claimed_speedup": 2.5}, HOLDS),
    (1, {"claimed_speedup": 6.0}, WRONG),
    (2, {"p": HALF, "q": HALF}, HOLDS),
    (3, {"p": HALF, "q": HALF}, HOLDS),
    (4, {"p": HALF, "q": HALF}, HOLDS),
    (6, {"rate": 60.0}, CONDITIONAL),
    (6, {"rate": 20.0, "weights": 8e9}, HOLDS),
    (8, {"tokens_per_day": 40e6}, HOLDS),
    (8, {"claimed_before": 9, "claimed_after": 1}, WRONG),
    (12, {"c": 0.0}, HOLDS),
    (12, {"claimed_speedup": 4.0}, WRONG),
    (13, {"claimed_speedup": 4.5}, WRONG),
    (15, {"steps": ((0.8, 2.46), (0.6, 1.59))}, HOLDS),
    (15, {"steps": ((0.8, 1.0), (0.4, 3.0))}, WRONG),
    (16, {"pairs": PAIRS[:1]}, HOLDS),
    (16, {"pairs": PAIRS[1:2]}, WRONG),
    (16, {"pairs": (PAIRS[0] | {"high": 2.5},)}, HOLDS),
    (20, {"p": (1.0, 0.0), "q": (0.0, 1.0)}, HOLDS),
    (20, {"p": (0.0, 0.5, 0.5), "q": (1.0, 0.0, 0.0)}, HOLDS),  # exact, but nothing passes
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


def test_a_gain_that_only_the_low_end_of_a_claimed_range_reaches_is_told() -> None:
    """Overshoot: 2x is within reach, 9x is not."""
    one = CLAIMS[16].theory(pairs=(PAIRS[0] | {"high": 9.0},))
    assert one.verdict is CONDITIONAL and "reaches no more than" in one.sentence
    (best,) = (each for each in one.numbers if each.name.endswith("best K"))
    assert best.claimed == 9.0


@pytest.mark.parametrize(
    ("number", "numbers"),
    [
        (1, {}),  # read per drafted token, and a draft of c = 0.05
        (13, {}),
        (15, {}),
    ],
)
def test_a_claim_that_names_no_cost_is_granted_a_usual_one_and_no_other(
    number: int, numbers: dict[str, Any]
) -> None:
    """4 tokens a round are 3x at c = 0.067; they are 4x only where drafting costs nothing."""
    assert CLAIMS[number].theory(**numbers).verdict is CONDITIONAL


@pytest.mark.parametrize(
    ("number", "numbers"),
    [
        (1, {"claimed_speedup": 5.2}),  # dearer than free is too dear
        (13, {"claimed_speedup": 4.5}),
        (13, {"claimed_speedup": 1.0}),  # c = 0.6
        (15, {"steps": ((0.8, 3.0), (0.6, 1.0))}),  # each fits a c, no c fits both
    ],
)
def test_where_no_usual_cost_fits_it_is_wrong(number: int, numbers: dict[str, Any]) -> None:
    assert CLAIMS[number].theory(**numbers).verdict is WRONG


def test_temperature_1_itself_counts_as_not_below_1() -> None:
    """Two distributions that share no token at exactly 1 would make the claim right."""
    apart = ((0.0, -math.inf), (-math.inf, 0.0))
    assert CLAIMS[27].theory(logits=apart, temperatures=(0.5, 1.0)).verdict is HOLDS
    assert CLAIMS[27].theory(temperatures=(0.5, 1.0)).verdict is WRONG


def test_every_rule_judges_a_claim() -> None:
    used = {claim.theory_rule for claim in CLAIMS.values()}
    assert used == set(theory_rules.RULES.values())
    measured = {claim.measured_rule for claim in CLAIMS.values()} - {None}
    assert measured == set(measured_rules.RULES.values())


@pytest.mark.parametrize("number", [0, 33, -1])
def test_a_number_that_there_is_not_is_refused(number: int) -> None:
    with pytest.raises(InputError, match=f"number must be an integer from 1 to 32, got {number}"):
        claim_numbered(number)
