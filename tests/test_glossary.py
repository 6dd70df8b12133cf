"""Every term that the design documents use has one definition, which is short and plain."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl

import pytest

from specviz.errors import InputError
from specviz.glossary import TERMS, Term, seen, term, tooltips
from specviz.golden import golden_trace
from specviz.lessons import read_lessons

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
    assert value["acceptance_prob"]["formula"] == "min(1, p/q)"
    assert len(value) == len(TERMS)


def test_words_that_were_once_missing_are_defined() -> None:
    words = "memory_bound rejection_rate token_budget quantisation continuous_batching"
    words += " token batch mixture_of_experts attention_mask noise_floor"
    for key in (*words.split(), "paged_attention", "inference", "kl_divergence", "root", "margin"):
        assert term(key).definition


LESSONS = {lesson.name: {step.name for step in lesson.steps} for lesson in read_lessons()}


@pytest.mark.parametrize("each", TERMS, ids=lambda each: each.key)
def test_every_term_links_to_pages_of_the_app_that_exist(each: Term) -> None:
    titles = [place.title for place in seen(each.key)]
    assert titles and len(set(titles)) == len(titles)
    for place in seen(each.key):
        given = dict(parse_qsl(place.address, strict_parsing=True))
        page = given.pop("view")
        if page == "learn":
            steps = LESSONS[given.pop("lesson")]
            assert given.pop("step", None) in steps | {None}
        elif page == "step":
            trace = golden_trace(given.pop("trace"))
            assert 1 <= int(given.pop("round")) <= len(trace.main.rounds)
        else:
            assert page in {"race", "lab"}
        assert not given


def test_the_rejection_rate_says_how_it_differs_from_draft_utilization() -> None:
    rejected = term("rejection_rate")
    assert "draft utilization" in rejected.definition and "never examined" in rejected.formula
