"""A pair's missing parts are known before anything is loaded."""

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


def test_the_missing_parts_of_a_pair_are_known_beforehand(saved_pair: Pair) -> None:
    assert needs_missing(saved_pair, frozenset(Need)) == (Need.MEDUSA, Need.EAGLE)
    turned = custom_pair(saved_pair.draft, saved_pair.target)
    assert needs_missing(turned, frozenset(Need)) == (Need.LAYERS, Need.MEDUSA, Need.EAGLE)
    assert needs_missing(turned, need(Need.DRAFT, Need.TEXT)) == ()


@pytest.mark.parametrize(("name", "is_layered"), [("smollm2-360m", True), ("gpt2", False)])
def test_the_missing_parts_of_a_preset_are_known_before_the_download(
    name: str, is_layered: bool
) -> None:
    missing = needs_missing(pair_named(name), frozenset(Need))
    assert (Need.LAYERS not in missing) is is_layered


def test_an_unknown_repository_is_not_said_to_lack_parts_that_it_may_have() -> None:
    assert needs_missing(custom_pair("owner/a", "owner/b"), need(Need.LAYERS)) == ()


def test_only_needed_models_are_listed() -> None:
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
