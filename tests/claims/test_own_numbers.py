"""A claim accepts a user's own numbers within bounds and refuses others in one line."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from specviz.claims.all_claims import CLAIMS
from specviz.claims.claim import finding_report
from specviz.errors import InputError


def texts(field: Any, own: str) -> list[str]:
    """Return valid texts for a field: the claim's own number and both ends of the field's range."""
    low, high = (f"{end:.12g}" for end in (field.low, field.high))
    if field.distribution:
        return [own, "1, 0, 0", "0, 0, 1"]
    return [own, low, f"{high}, {low}, {low}"] if field.list else [own, low, high]


@pytest.mark.parametrize("claim", CLAIMS.values(), ids=lambda claim: str(claim.number))
def test_every_claim_has_fields_and_accepts_all_values_that_they_allow(claim: Any) -> None:
    fields = {field["name"]: field for field in claim.report()["own_numbers"]}
    assert 1 <= len(fields) <= 5
    choices = [texts(field, fields[field.name]["text"]) for field in claim.own_numbers]
    answered = 0
    for chosen in product(*choices):
        try:
            found = claim.tried(dict(zip(fields, chosen, strict=True)))
        except InputError:
            # Each value is valid, but not the combination of the values: for example, two lists
            # have different lengths, or more tokens are accepted than drafted.
            continue
        json.dumps(finding_report(found), allow_nan=False)
        answered += 1
    assert answered >= 2


@pytest.mark.parametrize("number", [n for n, claim in CLAIMS.items() if not claim.example])
def test_the_fields_show_the_claim_s_own_numbers(number: int) -> None:
    claim = CLAIMS[number]
    own = {field["name"]: field["text"] for field in claim.report()["own_numbers"]}
    assert claim.tried(own).sentence == claim.theory().sentence


@pytest.mark.parametrize(
    ("number", "typed", "message"),
    [
        (1, {"a": "x"}, "Acceptance rate must be a number from 0 to 1, got 'x'"),
        (1, {"a": "nan"}, "Acceptance rate must be a number from 0 to 1, got 'nan'"),
        (1, {"K": "2.5"}, "Draft length K must be a whole number from 1 to 32, got '2.5'"),
        (1, {"b": "1"}, "number must be one of a, K, c, got 'b'"),
        (2, {"p": "0.5, 0.3"}, "p, the target must sum to 1, got 0.8"),
        (
            2,
            {"p": "0.5, 0.5"},
            "q, the draft must have as many numbers as p, the target (2), got 3",
        ),
        (2, {"p": ""}, "p, the target must be 1 to 8 numbers separated by commas, got ''"),
        (13, {"accepted": "6"}, "accepted tokens must be at most K = 5, got 6"),
    ],
)
def test_a_number_that_breaks_a_rule_is_refused_in_one_line(
    number: int, typed: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError) as refused:
        CLAIMS[number].tried(typed)
    assert str(refused.value) == message


def test_a_field_has_the_unit_of_its_title() -> None:
    """A weights field counts billions of parameters (70.6); a tokens field may have commas."""
    assert "141 GB" in CLAIMS[6].tried({"weights": "70.6"}).sentence
    assert "load is 116 tokens/s" in CLAIMS[8].tried({"tokens_per_day": "10,000,000"}).sentence
