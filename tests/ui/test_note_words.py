"""Every note of a drafter becomes text, and its tokens are shown as separate elements."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pytest

from specviz.glossary import term
from specviz.records.notes import (
    NOTE_TYPES,
    BatchRound,
    HybridChoice,
    LookaheadState,
    NgramMatch,
    Note,
    Prepared,
    SharedVocabulary,
    SuffixMatch,
    TreeBudget,
)
from specviz.ui.note_words import Remark, generic_remark, remark

SAMPLES: dict[str, Any] = {
    "int": 3,
    "float": 0.25,
    "bool": True,
    "tuple[int, ...]": (2, 1),
    "tuple[float, ...]": (0.5, 0.25),
    "TopIds": (2, 1),
}


def plain(words: Remark) -> str:
    """Return the text of a remark without its tokens."""
    shown = (part["text"] if isinstance(part, dict) else part for part in words)
    return "".join(part for part in shown if isinstance(part, str))


def sample(note_type: type[Note]) -> Note:
    return note_type(**{each.name: SAMPLES[str(each.type)] for each in fields(note_type)})


@pytest.mark.parametrize("name", NOTE_TYPES)
def test_every_kind_of_note_has_its_own_sentence(name: str) -> None:
    note = sample(NOTE_TYPES[name])
    words = remark(note)
    assert words != generic_remark(note), "write its sentence in note_words"
    assert isinstance(words[0], str) and not words[0][0].islower()


@pytest.mark.parametrize("name", NOTE_TYPES)
def test_a_note_without_a_sentence_is_shown_field_by_field(name: str) -> None:
    note = sample(NOTE_TYPES[name])
    words = generic_remark(note)
    text = "".join(part for part in words if isinstance(part, str))
    for each in fields(note):
        if each.name == "token_ids":
            assert [2, 1] in words
        else:
            assert each.name.replace("_", " ") in text


def test_an_unknown_note_is_shown_field_by_field() -> None:
    @dataclass(frozen=True)
    class Surprise:
        found: bool
        token_ids: tuple[int, ...]

    assert remark(Surprise(True, (7, 8))) == [  # type: ignore[arg-type]
        *("Surprise: found yes", "; tokens ", [7, 8])
    ]


def test_a_window_is_shown_with_each_row_of_its_tokens() -> None:
    words = remark(LookaheadState(12, 2, 1, (3, 2), (5, 6, 7, 8, 9)))
    assert [part for part in words if isinstance(part, list)] == [[5, 6, 7], [8, 9]]
    assert plain(words).startswith("The pool holds 12 n-grams, 1 of them new.\n2 of them begin")


@pytest.mark.parametrize("hits", [0, 1, 2])
def test_each_word_of_lookahead_has_a_definition(hits: int) -> None:
    words = remark(LookaheadState(12, hits, 1, (3,), (5, 6, 7)))
    terms = [term(part["term"]) for part in words if isinstance(part, dict)]
    assert [each.key for each in terms] == ["ngram_pool", "lookahead_guess", "jacobi_window"]
    # The number of sentences does not depend on the number of hits.
    assert plain(words).count(". ") + plain(words).count(".\n") == 2


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (NgramMatch(1, 7), "The last token also occurs"),
        (NgramMatch(3, 7), "The last 3 tokens also occur"),
        (SuffixMatch(1, (2, 1), False, (7,)), "The last token "),
        (SuffixMatch(4, (3, 2, 1), True, (7, 8)), "The last 2 tokens "),
        (HybridChoice(1.0, 1.0), "This score is at least the smallest score, 1.00, so this round"),
        (HybridChoice(0.5, 1.0), "The best copy has a score of 0.50, below the smallest score, 1"),
        (HybridChoice(0.0, 0.0), "There is nothing to copy, so the draft model drafts."),
        (TreeBudget(1, 12), "The target verifies the most probable one of 12"),
        (Prepared(True, (4, 4), 0.004, 0.001), "Hit: this round's draft was ready; it is for one"),
        (Prepared(False, (4, 4), 0.004, 0.001), "Miss: none of 8 prepared outcomes happened"),
        (SharedVocabulary(900, 0.3, 0.4, 0.8, 3, 2), "The two vocabularies have 900 tokens in"),
        (Prepared(False, (), 0.0, 0.0), "No draft was prepared before"),
        (BatchRound(0, 1, 6, 0, 64), "This text now runs alone in its batch: the forward ran 6"),
        (
            BatchRound(2, 4, 21, 3, 64),
            "This text is one of 4 in a batch: the forward ran 21 tokens",
        ),
    ],
)
def test_sentences_agree_with_their_numbers(note: Note, said: str) -> None:
    assert str(remark(note)[0]).startswith(said)


@pytest.mark.parametrize(
    ("note", "said"),
    [
        (
            SuffixMatch(4, (3, 2, 1), False, (7, 8)),
            "The last 2 tokens  occur 3 times in the suffix tree of the text, this end included; "
            "the drafted tokens followed 2 and 1 of these times.\n"
            "So its score is 2/3 + 1/3 = 1.00, the highest of the matches of 1 to 4 tokens.",
        ),
        (
            SuffixMatch(1, (2, 1), True, (7,)),
            "The last token  occurs 2 times in the suffix tree of earlier outputs, this end "
            "included; the drafted token followed 1 of these times.\n"
            "So its score is 1/2 = 0.50. No longer match exists.",
        ),
    ],
)
def test_a_suffix_match_is_described_with_its_tokens_counts_and_score(
    note: Note, said: str
) -> None:
    words = remark(note)
    assert plain(words) == said
    assert note.token_ids in [tuple(part) for part in words if isinstance(part, list)]  # type: ignore[union-attr]


@pytest.mark.parametrize("counts", [(), (0,), (0, 0)])
def test_a_suffix_match_of_a_file_may_have_impossible_counts(counts: tuple[int, ...]) -> None:
    assert "score" in plain(remark(SuffixMatch(0, counts, False, ())))
