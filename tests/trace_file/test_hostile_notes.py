"""Notes that no drafter can write are refused in one line that names the field."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.records import NOTE_TYPES, Note, Round
from specviz.trace_file import decode, decode_trace, encode, encode_trace, loads
from tests.random_rounds import random_round
from tests.random_traces import random_trace

HUGE = 10**400
GOOD = {
    "int": 7,
    "float": 0.25,
    "bool": True,
    "tuple[int, ...]": (3, 1, 4),
    "tuple[float, ...]": (0.5, 0.25),
    "TopIds": (3, 1, 4),
}
MAX_NOTES = 64
NO_COUNT = [-1, 2**53, HUGE, 1.5, True, "1", None, [], {}, math.nan]
NO_NUMBER = [-0.5, -HUGE, HUGE, True, "1", None, [1.0], {}, math.nan, math.inf, -math.inf]
NO_TRUTH = [0, 1, 1.0, "true", None, []]
NO_IDS = ["314", 3, None, {"0": 3}, [-1], [1.5], [True], ["3"], [None], [[3]], [math.nan], [HUGE]]
BAD = {
    "int": NO_COUNT,
    "float": NO_NUMBER,
    "bool": NO_TRUTH,
    "tuple[int, ...]": [*NO_IDS, [0] * 65, [0] * 1_000_000],
    "tuple[float, ...]": ["0.5", 0.5, None, {}, *([each] for each in NO_NUMBER), [0.5] * 65],
    "TopIds": [*NO_IDS, [0] * 257, [0] * 1_000_000],
}
FIELDS = [
    pytest.param(name, field.name, str(field.type), id=f"{name} {field.name}")
    for name, note_type in NOTE_TYPES.items()
    for field in fields(note_type)
]


def good_note(name: str) -> Note:
    note_type = NOTE_TYPES[name]
    values: dict[str, Any] = {each.name: GOOD[str(each.type)] for each in fields(note_type)}
    return note_type(**values)


def encode_note(note: Note) -> dict[str, Any]:
    """Return the note as JSON, as a round's file contains it."""
    (encoded,) = encode(replace(random_round(0), notes=(note,)))["notes"]
    assert isinstance(encoded, dict)
    return encoded


def refusal(value: object) -> str:
    """Return the error message of a round whose only note is `value`; it must be one line."""
    encoded = encode(random_round(0)) | {"notes": [value]}
    with pytest.raises(InputError) as error:
        decode(Round, encoded, "round")
    message = str(error.value)
    assert message.startswith("round.notes[0]") and "\n" not in message and len(message) < 250
    return message


@pytest.mark.parametrize("name", NOTE_TYPES)
def test_a_note_of_every_type_survives_a_file(name: str) -> None:
    round_ = replace(random_round(0), notes=(good_note(name),))
    wire = json.loads(json.dumps(encode(round_)))
    assert decode(Round, wire, "round").notes == round_.notes


@pytest.mark.parametrize("name, field, kind", FIELDS)
def test_a_field_with_a_wrong_type_or_outside_its_bounds_is_refused(
    name: str, field: str, kind: str
) -> None:
    for bad in BAD[kind]:
        assert refusal(encode_note(good_note(name)) | {field: bad}).startswith(
            f"round.notes[0].{field}"
        )


@pytest.mark.parametrize("name, field, kind", FIELDS)
def test_a_missing_field_is_refused(name: str, field: str, kind: str) -> None:
    note = encode_note(good_note(name))
    del note[field]
    assert refusal(note) == f"round.notes[0].{field} is missing"


@pytest.mark.parametrize("name", NOTE_TYPES)
def test_an_additional_field_is_refused(name: str) -> None:
    long = "x" * 100_000
    note = encode_note(good_note(name)) | {long: 1}
    assert refusal(note).startswith("round.notes[0] must have only known fields, got 'xxx")


@pytest.mark.parametrize("kind", ["?", "", "NgramMatch", "x" * 100_000, None, 3, ["prepared"], {}])
def test_an_unknown_kind_is_refused_with_the_list_of_known_kinds(kind: object) -> None:
    message = refusal({"note": kind, "length": 1, "position": 1})
    assert message.startswith(f"round.notes[0].note must be one of {', '.join(NOTE_TYPES)}, got ")


@pytest.mark.parametrize("value", [None, 3, "ngram-match", [], [["note", "prepared"]]])
def test_a_value_that_is_no_object_is_not_a_note(value: object) -> None:
    assert refusal(value).startswith("round.notes[0].note must be one of ")


@pytest.mark.parametrize("notes", [None, {}, "notes", 3])
def test_notes_must_be_an_array(notes: object) -> None:
    with pytest.raises(InputError, match="^round.notes must be an array, got "):
        decode(Round, encode(random_round(0)) | {"notes": notes}, "round")


def test_more_notes_than_a_round_can_have_are_refused() -> None:
    notes = [encode_note(good_note("ngram-match"))] * (MAX_NOTES + 1)
    with pytest.raises(InputError, match="^round.notes must have at most 64 items, got 65$"):
        decode(Round, encode(random_round(0)) | {"notes": notes}, "round")


def test_a_broken_note_is_found_at_any_position_in_a_file() -> None:
    value = encode_trace(random_trace(0, rounds=3))
    value["lanes"][1]["rounds"][2]["notes"] = [
        encode_note(good_note("tree-budget")),
        encode_note(good_note("tree-budget")) | {"nodes": -1},
    ]
    with pytest.raises(InputError, match=r"rounds\[2\].notes\[1\].nodes must be a whole number"):
        decode_trace(value)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_does_not_allow_are_refused_in_a_note(number: float) -> None:
    value = encode_trace(random_trace(0, rounds=1))
    value["lanes"][1]["rounds"][0]["notes"] = [
        encode_note(good_note("prepared")) | {"hidden_seconds": number}
    ]
    with pytest.raises(InputError, match="^trace must hold finite numbers only, got "):
        loads(json.dumps(value).encode())
