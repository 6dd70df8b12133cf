"""Every kind of moment in a round has one sentence, with the recorded numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from specviz.figures.labels import NO_BREAK
from specviz.figures.moment_sentences import Sentence, round_sentences
from specviz.records import (
    BatchRound,
    CacheLengths,
    DraftNode,
    DraftTree,
    Drawing,
    ExtraKind,
    ExtraToken,
    LookaheadState,
    Outcome,
    Position,
    Round,
    Verdict,
)
from tests.random_rounds import random_round

A, R, U = Outcome.ACCEPTED, Outcome.REJECTED, Outcome.UNREACHED
IID, WITHOUT = Drawing.INDEPENDENT, Drawing.WITHOUT_REPLACEMENT
PICKED = Drawing.CHOSEN
# How the draft was made (its tokens drawn at random or chosen), and the rule that judges it.
DRAWN_BY_TOKEN, PICKED_BY_TOKEN, BY_THRESHOLD = (
    (IID, "token"),
    (PICKED, "token"),
    (PICKED, "typical"),
)
SYS, THE, END = 1, 2, 9
TEXTS = {SYS: "sys", THE: "the", END: "end"}


def judged(
    outcome: Outcome, p: float, q: float, u: float | None, left: float | None = None
) -> Verdict:
    compared = p if left is None else left
    accept = min(1.0, compared / q) if q else 0.0
    return Verdict(p, compared, q, accept, u, outcome, p, q)


def made(
    *verdicts: Verdict,
    drawing: Drawing = IID,
    rule: str = "token",
    extra: ExtraKind | None = ExtraKind.RECOVERED,
    ids: tuple[int, ...] = (SYS, SYS, SYS, SYS, SYS, SYS),
    is_wide: bool = False,
    raw_q: bool = True,
) -> Round:
    """Return a round with these verdicts, as a chain or as siblings below the root.

    The target adds the token `the`, which has 34.0 %.
    """
    nodes = tuple(
        DraftNode(token, -1 if is_wide else i - 1, 1 if is_wide else i + 1, each.draft_prob, 0.27)
        for i, (token, each) in enumerate(zip(ids, verdicts, strict=False))
    )
    path = [i for i, each in enumerate(verdicts) if each.outcome is A]
    parents = (-1, *path)
    probs = (0.44, 0.12)
    positions = tuple(
        Position(at, (THE, SYS), (1.0, 0.0), (), (), probs, probs if raw_q else (), 1, 0.5, 0.5, 1)
        for at in parents
    )
    end = path[-1] if path else -1
    return replace(
        random_round(0),
        tree=DraftTree(drawing, nodes),
        verdicts=verdicts,
        positions=positions,
        extra=None if extra is None else ExtraToken(THE, extra, end, 0.34),
        extra_ids=(),
        verify_seconds=0.0421,
        cache=CacheLengths(10, len(nodes) + 1, len(nodes) - len(path)),
        notes=(),
        rule=rule,
    )


def said(parts: Sentence | None) -> str:
    assert parts is not None
    words = (
        part if isinstance(part, str) else " ".join(TEXTS.get(i, str(i)) for i in part)
        for part in parts
    )
    return "".join(words).replace(NO_BREAK, " ")


def judged_words(round_: Round, node: int = 0, is_greedy: bool = False) -> str:
    return said(round_sentences(round_, is_greedy).judge[node])


def test_a_drawn_guess_is_described_with_its_probability_in_the_draft() -> None:
    chain = made(judged(R, 0.028, 0.27, 0.96), judged(U, 0.5, 0.5, 0.5))
    first, second = round_sentences(chain, is_greedy=False).draft
    assert said(first) == "Guess 1 of 2: the draft draws sys, to which it gave 27.0 %."
    assert said(second) == "Guess 2 of 2: the draft draws sys, to which it gave 50.0 %."


@pytest.mark.parametrize(
    ("drawing", "is_greedy", "raw_q", "words"),
    [
        (IID, True, True, "Guess 1 of 1: the draft takes sys, its most probable token (27.0 %)."),
        (PICKED, False, True, "Guess 1 of 1: the draft picks sys, to which it gives 27.0 %."),
        (
            PICKED,
            False,
            False,
            "Guess 1 of 1: sys. This draft gives no probability.",
        ),
    ],
)
def test_a_guess_that_was_not_drawn_says_so(
    drawing: Drawing, is_greedy: bool, raw_q: bool, words: str
) -> None:
    chain = made(judged(A, 1, 1, 0.5), drawing=drawing, extra=ExtraKind.BONUS, raw_q=raw_q)
    assert said(round_sentences(chain, is_greedy).draft[0]) == words


def test_a_level_of_a_tree_names_its_first_guesses_and_counts_the_rest() -> None:
    tree = made(*[judged(U, 0.1, 0.2, 0.5)] * 6, is_wide=True, extra=None)
    (level,) = round_sentences(tree, is_greedy=False).draft
    assert said(level) == (
        "Depth 1, 6 guesses: sys 20.0 %, sys 20.0 %, sys 20.0 %, sys 20.0 % and 2 more. "
        "Each was drawn from the draft’s distribution, so one can come twice."
    )


def test_siblings_without_replacement_have_the_q_of_the_first_draw() -> None:
    tree = made(judged(R, 0.1, 0.5, 0.9), judged(R, 0.1, 0.5, 0.9), drawing=WITHOUT, is_wide=True)
    (level,) = round_sentences(tree, is_greedy=False).draft
    assert said(level).startswith("Depth 1, 2 guesses: sys 50.0 % and sys 25.0 %. They were drawn")


def test_a_round_without_drafts_says_so_at_every_moment() -> None:
    alone = made(extra=ExtraKind.PLAIN)
    found = round_sentences(alone, is_greedy=False)
    assert [said(each) for each in found.draft] == ["Nothing was drafted in this round."]
    assert said(found.verify) == (
        "One forward of the target reads the last token alone (42 ms) and gives p, "
        "its next-token distribution."
    )
    assert found.judge == []
    assert said(found.extra) == (
        "Nothing was drafted, so nothing is judged: the target draws the (34.0 %) from p."
    )
    assert (
        said(found.commit)
        == "1 new token from one forward of the target: the, as in plain decoding."
    )


def test_the_forward_says_what_it_verifies_in_one_call() -> None:
    state = LookaheadState(3, 0, 0, (3, 2), (SYS, SYS, THE, THE, SYS))
    alone = replace(made(extra=ExtraKind.PLAIN), notes=(state,))
    assert said(round_sentences(alone, is_greedy=False).verify) == (
        "One forward of the target reads the last token (42 ms) and gives p, its next-token "
        "distribution. It also reads 5 tokens of the drafter’s window, for later guesses."
    )
    chain = replace(made(judged(R, 0.1, 0.2, 0.9)), notes=(replace(state, token_ids=(SYS,)),))
    words = said(round_sentences(chain, is_greedy=False).verify)
    assert "reads the last token and the one guess, each weight once" in words
    assert words.endswith(" It also reads 1 token of the drafter’s window, for later guesses.")


def test_the_forward_says_how_many_guesses_it_verifies_at_once() -> None:
    chain = made(judged(R, 0.1, 0.2, 0.9), judged(U, 0.1, 0.2, 0.9))
    words = said(round_sentences(chain, is_greedy=False).verify)
    assert words == (
        "One forward of the target reads the last token and all 2 guesses, each "
        "weight once (42 ms), and gives p, its next-token distribution, after each. "
        "Each sees only the tokens before it, so p is as in plain decoding, except for rounding."
    )
    tree = made(judged(R, 0.1, 0.2, 0.9), judged(R, 0.1, 0.2, 0.9), is_wide=True)
    words = said(round_sentences(tree, is_greedy=False).verify)
    assert "Each sees only the tokens on its path, so p is as in plain" in words


def test_the_forward_of_a_batch_says_for_how_many_rows_it_is() -> None:
    chain = replace(made(judged(R, 0.1, 0.2, 0.9)), notes=(BatchRound(0, 4, 20, 2, 8),))
    words = said(round_sentences(chain, is_greedy=False).verify)
    assert "for 4 rows of the batch, 20 tokens at once (42 ms); in this row" in words
    assert "the last token and the one guess" in words


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (
            judged(R, 0.028, 0.27, 0.96),
            "The draft gave sys 27.0 %, the target only 2.8 %. "
            "So it passes with probability 0.104; the draw was 0.960: rejected.",
        ),
        (
            judged(A, 0.2, 0.27, 0.31),
            "The draft gave sys 27.0 %, the target only 20.0 %. "
            "So it passes with probability 0.741; the draw was 0.310: accepted.",
        ),
        (
            judged(A, 0.41, 0.27, 0.31),
            "The draft gave sys 27.0 %, the target 41.0 %. So it passes with any draw: accepted.",
        ),
        (
            judged(R, 0.0, 0.27, 0.31),
            "The draft gave sys 27.0 %, the target only 0 %. So it cannot pass: rejected.",
        ),
        (
            judged(A, 0.1037, 0.1071, 0.31),
            "The draft gave sys 10.71 %, the target only 10.37 %. "
            "So it passes with probability 0.968; the draw was 0.310: accepted.",
        ),
        (
            judged(R, 0.1, 0.2, None),
            "The draft gave sys 20.0 %, the target only 10.0 %. "
            "So it passes with probability 0.500; the draw is not known: rejected.",
        ),
        (
            judged(R, 0.1, 0.2, 0.5012),
            "The draft gave sys 20.0 %, the target only 10.0 %. "
            "So it passes with probability 0.500; the draw was 0.501: rejected.",
        ),
    ],
)
def test_a_drawn_guess_is_verified_with_both_probabilities_and_the_draw(
    verdict: Verdict, words: str
) -> None:
    extra = ExtraKind.BONUS if verdict.outcome is A else ExtraKind.RECOVERED
    assert judged_words(made(verdict, extra=extra)) == words


@pytest.mark.parametrize("is_greedy", [False, True])
@pytest.mark.parametrize(("drawing", "rule"), [DRAWN_BY_TOKEN, PICKED_BY_TOKEN, BY_THRESHOLD])
def test_a_rejection_says_why_later_guesses_are_also_dropped(
    drawing: Drawing, rule: str, is_greedy: bool
) -> None:
    rejected, behind = judged(R, 0.1, 0.2, 0.9), judged(U, 0.1, 0.2, 0.9)
    found = [
        judged_words(made(rejected, *rest, drawing=drawing, rule=rule), 0, is_greedy).partition(
            "rejected."
        )[2]
        for rest in ([], [behind], [behind] * 2)
    ]
    assert found == [
        "",
        " The guess after it depends on it, so it is dropped as well.",
        " The guesses after it depend on it, so they are dropped as well.",
    ]
    passed = made(judged(A, 0.4, 0.2, 0.9), rejected, drawing=drawing, rule=rule)
    assert "after it" not in judged_words(passed, 0, is_greedy)


def test_two_different_probabilities_are_never_shown_with_the_same_digits() -> None:
    words = judged_words(made(judged(R, 0.2700, 0.2704, 0.9999)))
    assert "The draft gave sys 27.04 %, the target only 27.00 %." in words


def test_tiny_probabilities_are_shown_as_below_a_bound() -> None:
    words = judged_words(made(judged(R, 3e-8, 0.27, 0.5)))
    assert "the target under 0.0001 %. So it passes with probability under 0.00001;" in words
    words = judged_words(made(judged(R, 3e-8, 4e-8, 0.9)))
    assert "Both give sys under 0.0001 %, the target less than the draft." in words


def test_after_a_rejected_sibling_the_rule_compares_with_the_residual_of_p() -> None:
    first, second = judged(R, 0.1, 0.4, 0.9), judged(A, 0.1, 0.3, 0.2, left=0.12)
    tree = made(first, second, ids=(THE, SYS), is_wide=True, extra=ExtraKind.BONUS)
    assert judged_words(tree, 1) == (
        "After the rejection of the, what is left of p gives sys only 12.0 %; the draft gave it "
        "30.0 %. So it passes with probability 0.400; the draw was 0.200: accepted."
    )
    again = made(first, judged(R, 0.1, 0.4, 0.2, left=0.0), ids=(THE, THE), is_wide=True)
    assert judged_words(again, 1) == (
        "After the rejection of the nothing of p is left for the. So it cannot pass: rejected."
    )


def test_a_guess_that_was_picked_passes_with_probability_p() -> None:
    tree = made(
        judged(R, 0.41, 1, 0.9),
        judged(A, 0.2, 1, 0.22, left=0.48),
        drawing=PICKED,
        ids=(THE, SYS),
        is_wide=True,
        extra=ExtraKind.BONUS,
    )
    assert judged_words(tree) == (
        "The target gives the 41.0 %; the guess was picked, not drawn, so q counts as 1. "
        "So it passes with probability 0.410; the draw was 0.900: rejected."
    )
    assert judged_words(tree, 1).startswith("Without the, the target gives sys 48.0 %; the guess")


def test_at_temperature_0_only_the_most_probable_token_passes() -> None:
    chain = made(judged(A, 0.62, 1, 0.1), judged(R, 0.12, 1, 0.1))
    assert judged_words(chain, 0, is_greedy=True) == (
        "At temperature 0 only the target’s most probable token passes. "
        "It is sys (62.0 %): accepted."
    )
    assert judged_words(chain, 1, is_greedy=True) == (
        "At temperature 0 only the target’s most probable token passes. "
        "That is the (44.0 %); sys has 12.0 %: rejected."
    )


@pytest.mark.parametrize(("outcome", "enough"), [(A, "enough"), (R, "too little")])
def test_a_lossy_rule_uses_no_draw(outcome: Outcome, enough: str) -> None:
    assert judged_words(made(judged(outcome, 0.3, 1, 0.5), drawing=PICKED, rule="typical")) == (
        f"The target gives sys 30.0 %, {enough} for typical acceptance, which draws nothing: "
        f"{outcome.value}."
    )


def jointly(outcome: Outcome, p: float, q: float, h: float, u: float | None) -> Verdict:
    return replace(judged(outcome, p, q, u), acceptance_prob=h)


def in_block(*verdicts: Verdict, **changes: Any) -> Round:
    return made(*verdicts, rule="block", ids=(THE, SYS, END), **changes)


def test_in_a_block_the_longest_draft_that_passes_decides_about_all_guesses_before_it() -> None:
    chain = in_block(
        jointly(A, 0.4, 0.5, 0.02, 0.9),
        jointly(A, 0.55, 0.5, 0.4, 0.3),
        jointly(R, 0.2, 0.4, 0.44, 0.6),
    )
    product = "the product of p/q up to here, cut to 1 at each guess, is"
    assert judged_words(chain, 0) == (
        f"The draft gave the 50.0 %, the target 40.0 %; {product} 0.800. With what p has beyond q "
        "after the it gives h = 0.020, the chance of this guess if no longer draft passes; the "
        "draw was 0.900. A longer draft passed, so this draw decides nothing: accepted."
    )
    assert judged_words(chain, 1) == (
        f"The draft gave sys 50.0 %, the target 55.0 %; {product} 0.880. With what p has beyond q "
        "after sys it gives h = 0.400, the chance of the first 2 guesses if no longer draft "
        "passes; the draw was 0.300. Read from the end, it is the first that passes: accepted, "
        "with all guesses before it."
    )
    assert judged_words(chain, 2) == (
        f"The draft gave end 40.0 %, the target 20.0 %; {product} h = 0.440; the draw was 0.600. "
        "So the draft up to here fails, and one guess less is read next: rejected."
    )
    assert said(round_sentences(chain, is_greedy=False).extra) == (
        "In place of end the target draws the from what 0.880 × p has beyond q, the residual, "
        "which gives it 34.0 %."
    )


def test_a_whole_block_passes_by_its_last_draw() -> None:
    chain = in_block(
        jointly(A, 0.5, 0.4, 1, 0.9), jointly(A, 0.4, 0.5, 0.8, 0.7), extra=ExtraKind.BONUS
    )
    assert judged_words(chain, 0).endswith(
        "is 1, so h = 1; the draw was 0.900. A longer draft passed, so this draw decides nothing: "
        "accepted."
    )
    assert judged_words(chain, 1).endswith(
        "is h = 0.800; the draw was 0.700. So the whole draft passes: accepted."
    )


def test_a_block_that_fails_as_a_whole_draws_from_the_usual_residual() -> None:
    chain = in_block(jointly(R, 0.2, 0.4, 0.1, 0.9), jointly(R, 0.4, 0.5, 0.4, None))
    assert judged_words(chain).endswith("up to here fails, and no guess is left: rejected.")
    assert "h = 0.400; the draw is not known. So the draft up to here" in judged_words(chain, 1)
    (words, after_one) = (
        said(round_sentences(each, is_greedy=False).extra)
        for each in (chain, in_block(jointly(A, 0.5, 0.4, 1, 0.9), jointly(R, 0.1, 0.5, 0.2, 0.9)))
    )
    assert "draws the from what p has beyond q, the residual" in words
    assert "draws the from what p has beyond q, the residual" in after_one


def test_a_block_with_a_tiny_chance_says_under_which_number_it_is() -> None:
    chain = in_block(jointly(R, 1e-7, 0.4, 1e-7, 0.9), jointly(R, 0.4, 0.5, 2e-7, 0.9))
    assert "after the it gives h, under 0.00001, the chance of this guess" in judged_words(chain)
    assert "at each guess, is h, under 0.00001; the draw was 0.900" in judged_words(chain, 1)


def test_the_end_of_a_text_inside_a_block_says_what_was_dropped() -> None:
    chain = in_block(jointly(A, 0.2, 0.4, 0.1, 0.9), jointly(U, 0.4, 0.5, 0.4, 0.1), extra=None)
    assert judged_words(chain).endswith("This draft or a longer one passed: accepted.")
    assert judged_words(chain, 1) == "sys is dropped: the text ends before it."


def test_a_picked_guess_in_a_block_counts_as_certain() -> None:
    chain = in_block(jointly(R, 0.2, 1, 0.2, 0.9), drawing=PICKED)
    assert judged_words(chain) == (
        "The target gives the 20.0 %; the guess was picked, so q counts as 1; the product of p/q "
        "up to here, cut to 1 at each guess, is h = 0.200; the draw was 0.900. So the draft up to "
        "here fails, and no guess is left: rejected."
    )
    words = said(round_sentences(chain, is_greedy=False).extra)
    assert words.startswith("In place of the the target draws the from p without the")


def test_in_a_block_at_temperature_0_no_guess_after_a_rejected_one_passes() -> None:
    chain = in_block(jointly(R, 0.12, 1, 0, 0.1), jointly(R, 0.62, 1, 0, 0.1))
    assert judged_words(chain, 0, is_greedy=True).endswith("the has 12.0 %: rejected.")
    assert judged_words(chain, 1, is_greedy=True) == (
        "A guess before sys is not the target’s most probable token, so it cannot pass: rejected."
    )


def on_a_tree(*verdicts: Verdict, **changes: Any) -> Round:
    """Return a round with two siblings, `the` and `sys`, of which the first has a child, `end`."""
    chain = made(*verdicts, rule="traversal", ids=(THE, SYS, END), **changes)
    one, two, three = chain.tree.nodes
    nodes = one, replace(two, parent=-1, depth=1), replace(three, parent=0, depth=2)
    path = [i for i, each in enumerate(verdicts) if each.outcome is A]
    extra = chain.extra and replace(chain.extra, parent=path[-1] if path else -1)
    return replace(chain, tree=DraftTree(chain.tree.drawing, nodes), extra=extra)


def test_on_a_tree_that_is_judged_from_its_leaves_a_failure_says_what_is_read_next() -> None:
    tree = on_a_tree(
        jointly(R, 0.4, 0.5, 0.02, 0.9),
        replace(jointly(A, 0.3, 0.5, 1, 0.3), residual_prob=0.8),
        jointly(R, 0.2, 0.4, 0.4, 0.6),
        extra=ExtraKind.BONUS,
    )
    assert judged_words(tree, 2) == (
        "The draft gave end 40.0 %, the target 20.0 %; p/q times the product before it, cut to 1, "
        "is h = 0.400; the draw was 0.600. So it fails, and the before it is read next: rejected."
    )
    assert judged_words(tree, 0) == (
        "All guesses after the failed, which leaves for the path up to it the product h = 0.020; "
        "the draw was 0.900. So it fails, and the path to sys is read next: rejected."
    )
    assert judged_words(tree, 1) == (
        "The draft gave sys 50.0 %; after the rejection of the, what is left of p gives it 80.0 %; "
        "p/q, cut to 1, is h = 1; the draw was 0.300. So the path to sys passes: accepted."
    )
    assert said(round_sentences(tree, is_greedy=False).extra).startswith(
        "The path to a leaf passed, 1 guess deep."
    )


def test_on_a_tree_the_path_above_a_passing_leaf_needs_no_draw() -> None:
    tree = on_a_tree(
        jointly(A, 0.4, 0.5, 0.02, 0.9),
        jointly(U, 0.3, 0.5, 1, 0.3),
        jointly(A, 0.2, 0.4, 0.4, 0.3),
        extra=ExtraKind.BONUS,
    )
    assert judged_words(tree, 2).endswith(
        "the draw was 0.300. So the path to end passes: accepted, with all guesses before it."
    )
    assert (
        judged_words(tree, 0) == "The path to end passed, so no draw decides about the: accepted."
    )
    assert judged_words(tree, 1) == "sys was not needed: the path to end passed."


def test_on_a_tree_whose_guesses_all_failed_the_target_draws_from_what_is_left() -> None:
    verdicts = (
        jointly(R, 0.4, 0.5, 0.02, 0.9),
        jointly(R, 0.3, 0.5, 0.5, None),
        jointly(R, 0.2, 0.4, 1e-7, 0.6),
    )
    tree = on_a_tree(*verdicts)
    assert judged_words(tree, 1).endswith(
        "is h = 0.500; the draw is not known. So it fails, and no guess is left: rejected."
    )
    assert "cut to 1, is h, under 0.00001; the draw was 0.600" in judged_words(tree, 2)
    assert "draws the from what their rejection left of p, the residual" in said(
        round_sentences(tree, is_greedy=False).extra
    )
    picked = on_a_tree(*verdicts, drawing=PICKED)
    assert judged_words(picked, 2).startswith(
        "end was picked, so q counts as 1; the target gives it 20.0 %; p/q times"
    )


def test_below_an_accepted_guess_the_residual_is_what_its_children_left() -> None:
    tree = on_a_tree(
        jointly(A, 0.4, 0.5, 0.6, 0.1), jointly(U, 0.3, 0.5, 1, 0.3), jointly(R, 0.2, 0.4, 0.4, 0.6)
    )
    words = said(round_sentences(tree, is_greedy=False).extra)
    assert words.startswith(
        "In place of end the target draws the from what its rejection left of p"
    )


def test_the_end_of_a_text_on_a_tree_says_what_was_dropped() -> None:
    tree = on_a_tree(
        jointly(A, 0.4, 0.5, 0.6, 0.1),
        jointly(U, 0.3, 0.5, 1, 0.3),
        jointly(U, 0.2, 0.4, 0.4, 0.6),
        extra=None,
    )
    assert judged_words(tree, 0).endswith("This path or a longer one passed: accepted.")
    assert judged_words(tree, 2) == "end is dropped: the text ends before it."
    assert judged_words(tree, 1) == "sys was not needed: the path to the passed."


def test_on_a_tree_at_temperature_0_only_the_most_probable_tokens_pass() -> None:
    tree = on_a_tree(
        jointly(R, 0.12, 1, 0, 0.1), jointly(A, 0.62, 1, 1, 0.1), jointly(R, 0.62, 1, 0, 0.1)
    )
    assert judged_words(tree, 0, is_greedy=True).endswith("the has 12.0 %: rejected.")
    assert judged_words(tree, 2, is_greedy=True) == (
        "A guess before end is not the target’s most probable token, so it cannot pass: rejected."
    )


def test_a_guess_that_was_never_examined_says_why() -> None:
    chain = made(judged(R, 0.1, 0.2, 0.9), judged(U, 0.1, 0.2, 0.9), ids=(THE, SYS))
    assert judged_words(chain, 1) == "sys was never examined: the before it was rejected."
    siblings = made(
        judged(A, 0.1, 0.2, 0.1), judged(U, 0.1, 0.2, 0.9), ids=(THE, SYS), is_wide=True
    )
    assert judged_words(siblings, 1) == "sys was never examined: its sibling the passed first."
    cut = made(judged(A, 0.1, 0.2, 0.1), judged(U, 0.1, 0.2, 0.9), ids=(END, SYS), extra=None)
    assert judged_words(cut, 1) == "sys was never examined: the text ends before it."


@pytest.mark.parametrize(
    ("drawing", "rule", "is_greedy", "words"),
    [
        (
            *DRAWN_BY_TOKEN,
            False,
            "In place of sys the target draws the from what p has beyond q, the residual, "
            "which gives it 34.0 %.",
        ),
        (
            *PICKED_BY_TOKEN,
            False,
            "In place of sys the target draws the from p without sys, which gives it 34.0 %.",
        ),
        (
            *BY_THRESHOLD,
            False,
            "In place of sys the target draws the from p itself, which gives it 34.0 %. "
            "This rule is lossy: an exact one would draw from what is left of p.",
        ),
        (
            *DRAWN_BY_TOKEN,
            True,
            "In place of sys comes the target’s most probable token, the (44.0 %).",
        ),
    ],
)
def test_a_recovered_token_says_from_which_distribution_it_was_drawn(
    drawing: Drawing, rule: str, is_greedy: bool, words: str
) -> None:
    chain = made(judged(R, 0.02, 0.5, 0.9), drawing=drawing, rule=rule)
    assert said(round_sentences(chain, is_greedy).extra) == words


def test_after_several_rejected_siblings_the_residual_is_what_they_left() -> None:
    tree = made(judged(R, 0.1, 0.5, 0.9), judged(R, 0.1, 0.5, 0.9), is_wide=True)
    words = said(round_sentences(tree, is_greedy=False).extra)
    assert "from what their rejection left of p, the residual, which gives it 34.0 %." in words


def test_a_token_that_was_drawn_and_rejected_twice_is_named_once() -> None:
    tree = made(judged(R, 0.1, 0.5, 0.9), judged(R, 0.1, 0.5, 0.9), is_wide=True)
    words = said(round_sentences(tree, is_greedy=False).extra)
    assert words.startswith("In place of sys (drawn 2 times) the target draws the from")


def test_values_that_the_record_does_not_keep_are_not_mentioned() -> None:
    chain = made(judged(R, 0.02, 0.5, 0.9))
    found = round_sentences(chain, is_greedy=False, knows_extra=False).extra
    assert said(found).endswith("from what p has beyond q, the residual.")


@pytest.mark.parametrize(
    ("is_greedy", "draws"),
    [
        (False, "the target draws the (34.0 %) from p, a bonus."),
        (True, "the target writes its most probable token, the (44.0 %), a bonus."),
    ],
)
def test_a_bonus_token_says_that_every_guess_passed(is_greedy: bool, draws: str) -> None:
    chain = made(*[judged(A, 1, 1, 0.5)] * 3, extra=ExtraKind.BONUS)
    assert said(round_sentences(chain, is_greedy).extra) == (
        f"All 3 guesses passed. The same forward has p for the next position: {draws}"
    )


def test_the_bonus_token_of_a_tree_says_how_deep_the_walk_came() -> None:
    tree = made(judged(A, 1, 1, 0.5), judged(U, 1, 1, 0.5), is_wide=True, extra=ExtraKind.BONUS)
    words = said(round_sentences(tree, is_greedy=False).extra)
    assert words.startswith("The walk reached a leaf of the tree, 1 guess deep.")


@pytest.mark.parametrize(
    ("round_", "words"),
    [
        (
            made(judged(A, 1, 1, 0.5), judged(R, 0.1, 0.5, 0.9), judged(U, 0.1, 0.5, 0.9)),
            "2 new tokens from one forward of the target: 1 accepted guess and the recovered the. "
            "The cache drops 2 entries that no kept token needs.",
        ),
        (
            made(judged(R, 0.1, 0.5, 0.9)),
            "1 new token from one forward of the target: the recovered the, because no guess "
            "passed. The cache drops 1 entry that no kept token needs.",
        ),
        (
            made(*[judged(A, 1, 1, 0.5)] * 2, extra=ExtraKind.BONUS),
            "3 new tokens from one forward of the target: 2 accepted guesses and the bonus the.",
        ),
        (
            made(judged(A, 1, 1, 0.5), ids=(END,), extra=None),
            "1 new token from one forward of the target: 1 accepted guess; with end the text ends.",
        ),
    ],
)
def test_the_commit_says_how_many_tokens_one_forward_gave(round_: Round, words: str) -> None:
    assert said(round_sentences(round_, is_greedy=False).commit) == words


@pytest.mark.parametrize("seed", range(28))
@pytest.mark.parametrize("is_greedy", [False, True])
def test_every_round_has_a_sentence_for_every_level_and_node(seed: int, is_greedy: bool) -> None:
    ways = (DRAWN_BY_TOKEN, PICKED_BY_TOKEN, BY_THRESHOLD, (IID, "block"), (PICKED, "block"))
    ways += ((IID, "traversal"), (PICKED, "traversal"))
    drawing, rule = ways[seed % 7]
    widths = (1, 1, 1) if rule == "block" else (3, 2, 1)
    widths, has_q = widths[: seed % 4], seed % 2 == 0
    each = random_round(seed, widths, drawing, has_distributions=has_q, rule=rule)
    found = round_sentences(each, is_greedy)
    depth = max((node.depth for node in each.tree.nodes), default=0)
    assert (len(found.draft), len(found.judge)) == (max(1, depth), len(each.tree.nodes))
    for parts in (*found.draft, found.verify, *found.judge, found.extra, found.commit):
        assert said(parts).endswith(".") and "  " not in said(parts)
