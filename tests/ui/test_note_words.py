"""Every note of a drafter becomes words, and its tokens chips."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pytest

from specviz.glossary import term
from specviz.records.notes import (
    NOTE_TYPES,
    BatchRound,
    LookaheadState,
    NgramMatch,
    Note,
    Prepared,
    SharedVocabulary,
    TreeBudget,
)
from specviz.ui.note_words import Remark, generic_remark, remark

SAMPLES: dict[str, Any] = {
    "int": 3,
    "float": 0.25,
    "bool": True,
    "tuple[int, ...]": (2, 1),
    "TopIds": (2, 1),
}


def plain(words: Remark) -> str:
    """A remark without its tokens."""
    shown = (part["text"] if isinstance(part, dict) else part for part in words)
    return "".join(part for part in shown if isinstance(part, str))


def sample(note_type: type[Note]) -> Note:
    return note_type(**{each.name: SAMPLES[str(each.type)] for each in fields(note_type)})


@pytest.mark.parametrize("name", NOTE_TYPES)
def test_every_kind_of_note_has_a_sentence_of_its_own(name: str) -> None:
    note = sample(NOTE_TYPES[name])
    words = remark(note)
    assert words != generic_remark(note), "write its sentence in note_words"
    assert isinstance(words[0], str) and not words[0][0].islower()


@pytest.mark.parametrize("name", NOTE_TYPES)
def test_a_note_without_a_sentence_is_told_field_by_field(name: str) -> None:
    note = sample(NOTE_TYPES[name])
    words = generic_remark(note)
    text = "".join(part for part in words if isinstance(part, str))
    for each in fields(note):
        if each.name == "token_ids":
            assert [2, 1] in words
        else:
            assert each.name.replace("_", " ") in text


def test_an_unknown_note_is_told_field_by_field() -> None:
    @dataclass(frozen=True)
    class Surprise:
        found: bool
        token_ids: tuple[int, ...]

    assert remark(Surprise(True, (7, 8))) == [  # type: ignore[arg-type]
        *("Surprise: found yes", "; tokens ", [7, 8])
    ]


def test_a_window_shows_each_row_of_its_tokens() -> None:
    words = remark(LookaheadState(12, 2, 1, (3, 2), (5, 6, 7, 8, 9)))
    assert [part for part in words if isinstance(part, list)] == [[5, 6, 7], [8, 9]]
    assert plain(words).startswith("The pool holds 12 n-grams, 1 of them new.\n2 begin with the")


@pytest.mark.parametrize("hits", [0, 1, 2])
def test_each_word_of_lookahead_has_its_definition_at_hand(hits: int) -> None:
    words = remark(LookaheadState(12, hits, 1, (3,), (5, 6, 7)))
    terms = [term(part["term"]) for part in words if isinstance(part, dict)]
    assert [each.key for each in terms] == ["ngram_pool", "lookahead_guess", "jacobi_window"]
    assert plain(words).count(". ") + plain(words).count(".\n") == 2  # a sentence each


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (NgramMatch(1, 7), "The last token stood"),
        (NgramMatch(3, 7), "The last 3 tokens stood"),
        (TreeBudget(1, 12), "Of 12 scored candidates the most probable one went"),
        (Prepared(True, (4, 4), 0.004, 0.001), "Hit: the draft of this round was ready, one of 8"),
        (Prepared(False, (4, 4), 0.004, 0.001), "Miss: none of 8 prepared outcomes came true"),
        (SharedVocabulary(900, 0.3, 0.4, 0.8, 3, 2), "900 tokens stand in both vocabularies: 30%"),
        (Prepared(False, (), 0.0, 0.0), "Nothing had been prepared yet"),
        (BatchRound(0, 1, 6, 0, 64), "Alone in its batch now: the target ran 6 tokens at once, no"),
        (BatchRound(2, 4, 21, 3, 64), "One of 4 rows of a batch: the target ran 21 tokens at once"),
    ],
)
def test_sentences_fit_their_numbers(note: Note, said: str) -> None:
    assert str(remark(note)[0]).startswith(said)
