"""The form as a request: everything that breaks a rule is named, nothing is silently mended."""

import math
from typing import Any

import pytest

from specviz.errors import InputError
from specviz.records import DecodingConfig, ProposalKind
from specviz.ui.settings_form import race_request


def test_an_order_of_texts_becomes_a_request() -> None:
    request = race_request(
        {
            "prompt": " def f():\n",
            "task": "code",
            "pair": "bundled",
            "method": "draft-tree",
            "draft_length": "4",
            "branching": " 3, 2 ",
            "tree_kind": "without-replacement",
            "temperature": "0.7",
            "top_k": "50",
            "top_p": "0.9",
            "seed": "9007199254740991",
            "max_new_tokens": "64",
            "device": "auto",
            "dtype": "bfloat16",
        }
    )
    kind = ProposalKind.WITHOUT_REPLACEMENT
    config = DecodingConfig("draft-tree", 4, (3, 2), kind, 0.7, 50, 0.9, 2**53 - 1, 64)
    assert request.config == config
    assert (request.prompt, request.task) == (" def f():\n", "code")
    assert (request.pair.name, request.dtype) == ("bundled", "bfloat16")


def test_what_is_left_out_takes_the_default() -> None:
    assert race_request({"prompt": "x"}).config == DecodingConfig()
    assert race_request({"prompt": "x", "task": None}).task is None


def test_a_custom_pair_is_two_sources() -> None:
    pair = race_request({"prompt": "x", "pair": "custom", "target": " a ", "draft": "b"}).pair
    assert (pair.target, pair.draft) == ("a", "b")


BAD: list[tuple[str, Any]] = [
    ("prompt", ""),
    ("prompt", " \n\t"),
    ("prompt", None),
    ("prompt", "half \ud83d"),
    ("prompt", "x" * 1_000_000),
    ("task", "poems"),
    ("pair", "nothing"),
    ("pair", 3),
    ("draft_length", "0"),
    ("draft_length", "1000000"),
    ("draft_length", "2.5"),
    ("draft_length", None),
    ("draft_length", [1]),
    ("draft_length", math.inf),
    ("temperature", "-1"),
    ("temperature", "NaN"),
    ("temperature", math.nan),
    ("temperature", "1e999"),
    ("temperature", "warm"),
    ("top_k", "-1"),
    ("top_p", "0"),
    ("top_p", "1.01"),
    ("seed", "-1"),
    ("seed", "9007199254740992"),
    ("max_new_tokens", "0"),
    ("max_new_tokens", "100000"),
    ("branching", "3;2"),
    ("branching", "0"),
    ("branching", "9,9,9"),
    ("branching", "1,1,1,1,1,1"),
    ("tree_kind", "odd"),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_a_bad_value_is_named_in_one_sentence(field: str, value: Any) -> None:
    with pytest.raises(InputError) as caught:
        race_request({"prompt": "x", field: value})
    message = str(caught.value)
    assert message.startswith(field)
    assert "\n" not in message and len(message) < 300


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(InputError, match="speed is not a setting"):
        race_request({"prompt": "x", "speed": "fast"})


@pytest.mark.parametrize("role", ["target", "draft"])
def test_a_custom_pair_needs_both_sources(role: str) -> None:
    form = {"prompt": "x", "pair": "custom", "target": "a", "draft": "b", role: " "}
    with pytest.raises(InputError, match=role):
        race_request(form)
