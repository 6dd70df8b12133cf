"""Lessons measure how rounding changes margins, and how well an EAGLE head predicts."""

from __future__ import annotations

import pytest

from specviz.errors import InputError
from specviz.experiments.run.foretold import foretold_text, mean_text
from specviz.experiments.run.rounding import rounded_places
from specviz.models.pair_catalog import BUNDLED, pair_named
from specviz.prompts import held_out_prompt
from specviz.ui.course.pair_orders import TOGETHER

PROMPT = held_out_prompt("code", 1)


def test_a_forward_over_many_tokens_changes_margins_only_by_rounding() -> None:
    places = list(rounded_places(pair_named(BUNDLED), PROMPT, "float32", 6, TOGETHER))
    assert len(places) == 6 and any(each.moved > 0 for each in places)
    for each in places:
        assert 0 <= each.moved < 1e-3 < each.margin, "the same tokens at the same positions"
        assert each.token == each.other != each.second


def test_a_forward_over_six_tokens_changes_no_margin_of_the_bundled_target() -> None:
    """In a forward over at most MOST_ALIKE tokens, sums have the same order as for one token.

    This is a property of the compiled kernels, so the test needs them.
    """
    pytest.importorskip("llvmlite")
    places = list(rounded_places(pair_named(BUNDLED), PROMPT, "float32", 6, 6))
    assert [each.moved for each in places] == [0.0] * 6


def test_features_that_a_head_predicts_are_less_exact_further_ahead() -> None:
    found = foretold_text(pair_named(BUNDLED), PROMPT, 12, 3)
    first, *_, last = found.levels
    assert 0 < last.likeness < first.likeness <= 1
    assert mean_text([found]) == found
    assert 0 < first.agreed <= 1 and 0 <= found.outside < 1
    assert 0 < found.drafted <= found.vocabulary and found.head_bytes < found.target_bytes


def test_a_pair_without_a_head_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match="EAGLE head"):
        foretold_text(pair_named("gpt2"), PROMPT, 1, 1)
