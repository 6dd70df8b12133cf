"""What lessons measure inside a model: rounding beside margins, features that a head foretells."""

from __future__ import annotations

import pytest

from specviz.errors import InputError
from specviz.experiments.run.foretold import foretold_text, mean_text
from specviz.experiments.run.rounding import rounded_places
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.prompts import held_out_prompt

PROMPT = held_out_prompt("code", 1)


def test_a_forward_over_six_tokens_moves_leads_by_rounding_alone() -> None:
    places = list(rounded_places(pair_named(BUNDLED), PROMPT, "float32", 6, 6))
    assert len(places) == 6 and any(each.moved > 0 for each in places)
    for each in places:
        assert 0 <= each.moved < 1e-3 < each.margin, "the same tokens at the same positions"
        assert each.token == each.other != each.second


def test_the_guesses_of_a_head_are_less_like_the_target_the_further_ahead_they_are() -> None:
    found = foretold_text(pair_named(BUNDLED), PROMPT, 12, 3)
    first, *_, last = found.levels
    assert 0 < last.likeness < first.likeness <= 1
    assert mean_text([found]) == found
    assert 0 < first.agreed <= 1 and 0 <= found.outside < 1
    assert 0 < found.drafted <= found.vocabulary and found.head_bytes < found.target_bytes


def test_a_pair_without_a_head_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="EAGLE head"):
        foretold_text(pair_named("gpt2"), PROMPT, 1, 1)
