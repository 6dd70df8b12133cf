"""The menu shows each method once, under a heading, and disables it only with a reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specviz.decoding.drafters.method import Method
from specviz.decoding.drafters.registry import DRAFTERS
from specviz.errors import InputError
from specviz.models.pair_catalog import Pair, pair_named, pairs
from specviz.models.parts import Need
from specviz.ui.settings_form import race_request, refusal, refusals
from specviz.ui.setup import group

BARE = Pair("bare", "with nothing beside it", "nobody/target", draft="", model_type="gpt2")


def method_that_needs(*needs: Need) -> Method:
    return replace(next(iter(DRAFTERS.values())), needs=frozenset(needs))


@pytest.mark.parametrize("need", [need for need in Need if need not in (Need.TEXT, Need.LAYERS)])
def test_each_missing_part_is_named_with_the_pair(need: Need) -> None:
    sentence = refusal(BARE, method_that_needs(need))
    assert sentence is not None
    assert sentence.startswith("needs ") and need.title in sentence
    assert sentence.endswith("; the pair with nothing beside it has none")


def test_a_target_of_an_unsupported_family_is_named_as_such() -> None:
    sentence = refusal(BARE, method_that_needs(Need.LAYERS))
    assert sentence == "needs a target of the Llama family; gpt2 is not"
    both = refusal(BARE, method_that_needs(Need.LAYERS, Need.EAGLE))
    assert both == (
        "needs an EAGLE head; the pair with nothing beside it has none, "
        "and needs a target of the Llama family; gpt2 is not"
    )


def test_several_missing_parts_are_all_named() -> None:
    sentence = refusal(BARE, method_that_needs(Need.MEDUSA, Need.EAGLE))
    assert sentence is not None and "Medusa heads and an EAGLE head" in sentence


@pytest.mark.parametrize("method", DRAFTERS.values(), ids=lambda method: method.name)
def test_a_method_is_refused_exactly_if_a_part_is_missing(method: Method) -> None:
    for pair in pairs():
        assert (method.name in refusals(pair)) == (refusal(pair, method) is not None)


def test_a_method_without_needs_is_available_for_every_pair() -> None:
    assert refusal(BARE, method_that_needs()) is None


@pytest.mark.parametrize("pair", [pair.name for pair in pairs()])
def test_the_server_refuses_with_the_sentence_of_the_menu(pair: str) -> None:
    for name, sentence in refusals(pair_named(pair)).items():
        with pytest.raises(InputError) as caught:
            race_request({"prompt": "x", "pair": pair, "method": name})
        assert str(caught.value) == f"method {sentence}"


def test_headings_follow_what_the_methods_need() -> None:
    titles = [group(method_that_needs(*needs)) for needs in [[Need.DRAFT], [Need.EAGLE], []]]
    assert len(set(titles)) == 3
    assert group(method_that_needs(Need.LAYERS)) == titles[2]
    assert group(method_that_needs(Need.FOREIGN_DRAFT, Need.TEXT)) == titles[0]
