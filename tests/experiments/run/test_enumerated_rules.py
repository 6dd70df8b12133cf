"""All outcomes of the token and the block rule are enumerated, for a vocabulary of two words.

The decoder's own functions compute the probability of each outcome.
"""

from __future__ import annotations

import pytest

from specviz.experiments.run.enumerated_rules import LONGEST, enumerated_rule


@pytest.mark.parametrize("rule", ["token", "block"])
@pytest.mark.parametrize("length", range(1, LONGEST + 1))
@pytest.mark.parametrize(
    ("p", "q"), [(1 / 3, 2 / 3), (0.9, 0.05), (0.5, 0.5), (0.2, 1.0), (0, 0.3)]
)
def test_every_text_comes_out_as_often_as_the_target_writes_it(
    rule: str, length: int, p: float, q: float
) -> None:
    found = enumerated_rule(rule, p, q, length)
    assert found.distance < 1e-12
    assert sum(came for came, _ in found.texts.values()) == pytest.approx(1)
    assert sum(draft.drafted for draft in found.drafts) == pytest.approx(1)


def test_the_example_of_the_paper_accepts_11_9_words_as_a_block_and_10_9_token_by_token() -> None:
    accepted = [enumerated_rule(rule, 1 / 3, 2 / 3, 2).accepted for rule in ("token", "block")]
    assert accepted == pytest.approx([10 / 9, 11 / 9])


def test_a_draft_that_both_models_write_equally_often_is_always_kept_by_the_block() -> None:
    """This is the draft that the lesson asks about: an unlikely word, then a likely one."""
    for rule, kept in (("token", 0.5), ("block", 1.0)):
        (draft,) = (e for e in enumerated_rule(rule, 1 / 3, 2 / 3, 2).drafts if e.words == (0, 1))
        assert draft.drafted == pytest.approx(draft.wanted) == pytest.approx(2 / 9)
        assert draft.kept == pytest.approx(kept)


@pytest.mark.parametrize(("p", "q", "length"), [(0.3, 0.8, 1), (0.3, 1.0, 3), (0.6, 0.6, 2)])
def test_the_block_gains_nothing_for_one_word_a_certain_draft_or_equal_models(
    p: float, q: float, length: int
) -> None:
    accepted = [enumerated_rule(rule, p, q, length).accepted for rule in ("token", "block")]
    assert accepted[1] == pytest.approx(accepted[0], abs=1e-12)


def test_the_limits_of_a_block_with_a_stop_at_the_first_failure_are_biased() -> None:
    assert enumerated_rule("first-failure", 1 / 3, 2 / 3, 2).distance == pytest.approx(1 / 3)
    assert enumerated_rule("first-failure", 1 / 3, 2 / 3, 1).distance < 1e-12
