"""What a pair lacks for a method is known before anything is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from specviz.models.pair_catalog import Pair, custom_pair, pair_named
from specviz.models.pair_check import need_refusal, needed_models, needs_missing
from specviz.models.parts import Need

Save = Callable[..., Path]


def need(*needs: Need) -> frozenset[Need]:
    return frozenset(needs)


def test_a_pair_says_beforehand_what_it_lacks(saved_pair: Pair) -> None:
    assert needs_missing(saved_pair, frozenset(Need)) == (Need.MEDUSA, Need.EAGLE)
    turned = custom_pair(saved_pair.draft, saved_pair.target)
    assert needs_missing(turned, frozenset(Need)) == (Need.LAYERS, Need.MEDUSA, Need.EAGLE)
    assert needs_missing(turned, need(Need.DRAFT, Need.TEXT)) == ()


@pytest.mark.parametrize(("name", "is_layered"), [("smollm2-360m", True), ("gpt2", False)])
def test_of_a_preset_it_is_known_before_the_download(name: str, is_layered: bool) -> None:
    missing = needs_missing(pair_named(name), frozenset(Need))
    assert (Need.LAYERS not in missing) is is_layered


def test_of_an_unknown_repository_nothing_is_said_to_lack_that_it_may_have() -> None:
    assert needs_missing(custom_pair("owner/a", "owner/b"), need(Need.LAYERS)) == ()


def test_only_the_models_that_are_needed_are_named() -> None:
    pair = Pair("any", "any", "a", "b", foreign_draft="c")
    assert needed_models(pair, need(Need.LAYERS, Need.MEDUSA)) == ("a",)
    assert needed_models(pair, need(Need.DRAFT)) == ("a", "b")
    assert needed_models(pair, need(Need.FOREIGN_DRAFT)) == ("a", "c")
    assert needed_models(custom_pair("a", "b"), frozenset(Need)) == ("a", "b")
    assert needed_models(custom_pair("a", "a"), frozenset(Need)) == ("a",)


@pytest.mark.parametrize("lacking", [Need.DRAFT, Need.MEDUSA, Need.EAGLE, Need.FOREIGN_DRAFT])
def test_every_need_has_a_sentence(lacking: Need) -> None:
    pair = Pair("mine", "any", "owner/a", "")
    assert needs_missing(pair, need(lacking)) == (lacking,)
    sentence = need_refusal(pair, lacking)
    assert sentence.startswith(f"pair 'mine' has no {lacking.title}: choose a method that needs")
