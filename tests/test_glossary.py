"""Every word of the design is defined once, briefly and plainly."""

from __future__ import annotations

import json

import pytest

from specviz.errors import InputError
from specviz.glossary import TERMS, term, tooltips

WORDS = (
    *("target", "draft", "drafter", "draft_length", "draft_tree", "node", "round", "level"),
    *("acceptance_prob", "overlap", "acceptance_rate", "draft_utilization", "block_efficiency"),
    *("residual_distribution", "recovered_token", "bonus_token", "first_token", "lossless"),
    *("cost_ratio", "speculative_decoding", "verification", "rollback", "target_forward"),
    *("tokens_per_second", "ttft", "temperature", "top_k", "top_p", "accepted", "rejected"),
    *("min_p", "unreached", "speedup", "baseline", "own_time"),
)


@pytest.mark.parametrize("word", WORDS)
def test_each_word_of_the_design_has_a_definition(word: str) -> None:
    assert term(word).definition


@pytest.mark.parametrize("field", ["key", "title", "definition"])
def test_no_two_terms_share_a_name_or_a_definition(field: str) -> None:
    values = [getattr(each, field) for each in TERMS]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("each", TERMS, ids=lambda each: each.key)
def test_a_definition_is_one_or_two_sentences_for_a_tooltip(each: object) -> None:
    definition = each.definition  # type: ignore[attr-defined]
    assert definition.endswith(".")
    assert definition.count(". ") + 1 <= 2
    assert len(definition) <= 240


def test_an_unknown_term_is_refused() -> None:
    with pytest.raises(InputError, match="^term must be one of .*, got 'assistant'$"):
        term("assistant")


def test_tooltips_are_plain_values() -> None:
    value = json.loads(json.dumps(tooltips()))
    assert value["acceptance_prob"]["formula"] == "min(1, p / q)"
    assert len(value) == len(TERMS)
